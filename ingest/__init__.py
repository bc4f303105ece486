"""Evidence in: recognise, peel, parse and store. Knows formats; draws no conclusions."""
