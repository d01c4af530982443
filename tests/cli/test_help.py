# SPDX-License-Identifier: Apache-2.0
"""Help texts, names of options, errors of the parser, and shell completion."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from cyclopts import App

from actuon.cli.app import app
from actuon.fit.network_fitting import KINDS as NETWORKS
from actuon.fit.terms import PRESETS
from actuon.plot.kinds import KINDS
from actuon.plot.pictures import RECORD
from actuon.robot_source import ENGINES
from scripts.reference import with_tables
from tests.support.command_line import COMMAND, command
from tests.support.paths import ROOT

BOX = "┏┳┓┡╇┩├┼┤└┴┘┃│━─"


def commands_of(parent: App, *names: str):
    """Yield the names of a command and of all below it, with the command."""
    yield names, parent
    for name in parent:
        if not name.startswith("-"):
            yield from commands_of(parent[name], *names, name)


COMMANDS = dict(commands_of(app))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_gives_way_without_breaking_words(names):
    wide = command(*names, "--help")
    assert max(map(len, wide.splitlines())) <= 120
    for columns in (80, 40):
        narrow = command(*names, "--help", columns=columns)
        assert narrow.split() == wide.split()
        usage_to_end = narrow.split("\n\n", 1)[1] if names else narrow
        assert all(len(line.rstrip()) <= columns for line in usage_to_end.splitlines() if len(line.split()) > 1)


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_is_written_for_people(names):
    text = command(*names, "--help", columns=100)
    assert text.startswith(f"Usage: {' '.join(('actuon', *names))}")
    assert "<" not in text
    assert not set(BOX) & set(text)
    assert "None" not in text
    if not names:
        return
    for argument in COMMANDS[names].assemble_argument_collection(parse_docstring=True).filter_by(show=True):
        assert argument.parameter.help, argument.name
        assert argument.parameter.help.endswith((".", "]")), argument.name


def test_commands_are_listed_by_what_they_are_for():
    blocks = command("--help").split("\n\n")
    listed = {block.split("\n")[0]: [line.split()[0] for line in block.splitlines()[1:]] for block in blocks}
    assert listed["Start"] == ["init", "motors", "studio"]
    assert listed["Check"] == ["inspect", "check", "run", "plot"]
    assert listed["Identify"] == ["fit"]
    assert listed["Convert"] == ["author", "export"]
    assert listed["Options"] == ["--version", "--install-completion", "--help"]
    assert blocks[-1].startswith("Try:  actuon run ")
    fit = command("fit", "--help")
    assert [line.split()[0] for line in fit.split("Commands\n")[1].split("\n\n")[0].splitlines()] == [
        "inspect", "select", "apply", "excite", "network", "fleet",
    ]  # fmt: skip
    groups = [block.split("\n")[0] for block in fit.split("\n\n")[3:-1]]
    assert groups == ["Commands", "Arguments", "What moves", "Model", "Search", "Output"]


def test_the_page_of_the_documentation_shows_what_commands_print():
    page = ROOT / "docs/reference/cli.md"
    text = page.read_text("utf-8")
    assert with_tables(ROOT / "docs", page) == text, "run: python -m scripts.reference docs"
    for names, found in COMMANDS.items():
        if found.show and names != ("motors", "show"):  # of which the output is shown
            assert re.search(rf"<!-- terminal: {' '.join(('actuon', *names))} --help(,| -->)", text)


def test_no_command_has_many_parameters():
    for names, found in COMMANDS.items():
        if found.default_command is not None:
            code = found.default_command.__code__
            assert code.co_argcount + code.co_kwonlyargcount <= 9, names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("inspct", "a.xml"), 'Unknown command "inspct". Did you mean "inspect"?'),
        (("frobnicate",), "See `actuon --help`"),
        (("fit", "aply"), None),  # a log
        (("check", "a.xml", "--allow_toch"), "Did you mean --allow-torch?"),
        (
            ("run", "a.xml", "--second", "1"),
            "Unknown option: --second. Did you mean --seconds? See `actuon run --help`",
        ),
        (("motors", "--all"), "Unknown option: --all. See `actuon motors --help`"),
        (("run", "a.xml", "--seconds", "0"), 'Invalid value "0.0" for --seconds. Must be >= 0.01.'),
        (("run", "a.xml", "--seconds", "soon"), 'Invalid value for --seconds: unable to convert "soon" into float.'),
        (("run", "a.xml", "--envs", "0"), 'Invalid value "0" for --envs. Must be >= 1.'),
        (("studio", "a.xml", "--port", "65536"), "--port. Must be <= 65535."),
        (("check",), "ROBOT is missing; see `actuon check --help`"),
        (("check", "a.xml", "b.xml"), "unexpected argument: b.xml; see `actuon check --help`"),
        (("motors", "shw"), "unexpected argument: shw; see `actuon motors --help`"),
        (("export", "a.xml"), "--output is missing; see `actuon export --help`"),
        (("export", "a.xml", "-o"), 'Command "export" parameter -o requires an argument.'),
        (("fit", "inspect"), "no logs. Pass files, folders or glob patterns"),
        (("fit",), "no logs. Pass files, folders or glob patterns, or plan a first recording with `actuon fit excite`"),
        (("plot",), "nothing to plot. Name robots"),
    ],
)
def test_errors_of_the_parser_are_one_line(arguments, said, complaint):
    line = complaint(*arguments)
    assert said is None or said in line


def test_options_may_stand_anywhere(complaint):
    assert "'a.csv' does not exist" in complaint("fit", "--seed", "1", "a.csv", "--dt=0.01", "b.csv")
    assert "'--x.csv'" in complaint("fit", "inspect", "--", "--x.csv")


def test_a_reader_that_ends_early_is_no_error():
    line = [*COMMAND, "inspect", str(ROOT / "src/actuon/assets/arm.xml"), "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait() == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed(shell, tmp_path):
    before = {"HOME": str(tmp_path), "SHELL": f"/bin/{shell}"}
    environment = {k: v for k, v in os.environ.items() if k not in ("BASH_VERSION", "ZSH_VERSION", "FISH_VERSION")}
    done = subprocess.run(
        [*COMMAND, "--install-completion", "--shell", shell],
        env=environment | before, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    script = max(written, key=lambda path: path.stat().st_size)
    text = script.read_text()
    for name in ("inspect", "studio", "allow-torch", "fleet"):
        assert name in text
    if shell == "bash":
        line = "source $1; COMP_WORDS=(actuon fit ap); COMP_CWORD=2; _actuon; echo ${COMPREPLY[@]}"
        found = subprocess.run(["bash", "-c", line, "-", script], capture_output=True, text=True, check=True)
        assert found.stdout.split() == ["apply"]
        line = "source $1; COMP_WORDS=(actuon run a.xml --engine ''); COMP_CWORD=4; _actuon; echo ${COMPREPLY[@]}"
        found = subprocess.run(["bash", "-c", line, "-", script], capture_output=True, text=True, check=True)
        assert found.stdout.split() == list(ENGINES)


def test_choices_are_those_of_the_library():
    for name, option, choices in (
        ("run", "--engine", ENGINES),
        ("plot", "--kind", [*KINDS, RECORD]),
        ("fit network", "KIND", NETWORKS),
    ):
        arguments = COMMANDS[tuple(name.split())].assemble_argument_collection()
        (found,) = (argument for argument in arguments if option in (*argument.names, argument.name))
        assert list(found.get_choices(force=True)) == list(choices)
    out = subprocess.run([*COMMAND, "__complete", "fit", "--model", ""], capture_output=True, text=True, check=True)
    assert set(PRESETS) <= set(out.stdout.split())
