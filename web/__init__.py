"""Rendering of what the other layers made: reports now, the dashboard later."""
