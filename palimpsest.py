"""The command line: parses arguments, calls the layers in order, prints what they made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ingest.errors import PalimpsestError, UsageError

VERSION = "0.1.0"
DEFAULT_CASE = Path("palimpsest-case")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which LLM responses may contain another request's KV-cache data, whose data it was, how "
         "sure that is, and who has to be told.",
    epilog="Example: palimpsest analyze sample_logs/ --case my-case",
)

Evidence = Annotated[list[str], typer.Argument(
    metavar="EVIDENCE...", help="Files, folders, globs; .gz .zst .bz2 .xz, .tar, .zip are opened.")]
Case = Annotated[Path, typer.Option("--case", help="Case directory; created if it is not there.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that parse; default: cores.")]
Copy = Annotated[bool, typer.Option(
    "--copy-evidence", help="Keep a byte copy of every file in the case.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


@app.command(epilog="Examples:  palimpsest analyze logs/  |  palimpsest analyze bundle.tar.gz "
                    "--case inc-42 --fail-on probable  |  palimpsest analyze logs/ --json")
def analyze(
    evidence: Evidence,
    case: Case = DEFAULT_CASE,
    workers: Workers = None,
    copy_evidence: Copy = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json alone.")] = False,
    fail_on: Annotated[str | None, typer.Option(
        metavar="TIER", help="Exit 1 if a response has this tier or a higher one: confirmed, "
                             "probable, possible, not_assessable.")] = None,
    quiet: Quiet = False,
) -> None:
    """Read evidence, judge every response, and write the results into CASE/out/.

    Exit codes: 0 done, 1 findings at --fail-on, 2 usage, 3 nothing readable, 4 internal error.
    Exit code 0 never means clean.
    """
    from forensics.tiers import RANK, Tier
    from web.case_run import run_analysis
    from web.terminal import Reporter, screen

    floor = None
    if fail_on is not None:
        if fail_on not in [t.value for t in Tier if t is not Tier.EXCLUDED]:
            raise UsageError(f"--fail-on knows no tier {fail_on!r}",
                             way_out="Say confirmed, probable, possible or not_assessable.")
        floor = Tier(fail_on)
    with Reporter(quiet=quiet or as_json) as reporter:
        result = run_analysis(evidence, case, version=VERSION, workers=workers,
                              copy_evidence=copy_evidence, reporter=reporter)
    print(json.dumps(result.summary, indent=2, ensure_ascii=False) if as_json
          else screen(result.summary, result.out))
    by_tier = result.summary["responses"]["by_tier"]
    if floor is not None and any(
        count for name, count in by_tier.items()
        if Tier(name) is not Tier.EXCLUDED and RANK[Tier(name)] >= RANK[floor]
    ):
        raise typer.Exit(1)


@app.command(epilog="Example:  palimpsest ingest /var/log/sglang --case my-case")
def ingest(
    evidence: Evidence,
    case: Case = DEFAULT_CASE,
    workers: Workers = None,
    copy_evidence: Copy = False,
    quiet: Quiet = False,
) -> None:
    """Read evidence into the case, without verdicts. May be interrupted and run again."""
    from ingest.pipeline import ingest as run_ingest
    from web.terminal import Reporter, ingest_text

    with Reporter(quiet=quiet) as reporter:
        result = run_ingest(evidence, case, copy_evidence=copy_evidence, workers=workers,
                            progress=reporter.ingest)
    print(ingest_text(result, case))


@app.command(epilog="Examples:  palimpsest knowledge --version 0.5.18 --backend mooncake  |  "
                    "palimpsest knowledge --json")
def knowledge(
    version: Annotated[str | None, typer.Option(
        help="Release, image tag, nightly or commit of a build.")] = None,
    backend: Annotated[str | None, typer.Option(
        help="mooncake, ascend, nixl, mori or fake.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Print what is known of a build: which mechanisms are open, by source and by advisory."""
    from forensics.knowledge_text import knowledge_as_dict, render_knowledge

    if as_json:
        print(json.dumps(knowledge_as_dict(version, backend), indent=2, ensure_ascii=False,
                         default=str))
    else:
        print(render_knowledge(version, backend))


def _version(value: bool) -> None:
    if value:
        print(f"palimpsest {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option(
        "--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every expected error is one line on standard error."""
    try:
        result: Any = app(arguments, standalone_mode=False)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except PalimpsestError as error:
        print(f"palimpsest: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("palimpsest: interrupted; what was read is kept. Run the same command again to go "
              "on.", file=sys.stderr)
        sys.exit(130)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's usage errors
            error.show()
            sys.exit(2)
        print(f"palimpsest: internal error: {type(error).__name__}: {error}. The case is kept; "
              "please report this with the command that you ran.", file=sys.stderr)
        sys.exit(4)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
