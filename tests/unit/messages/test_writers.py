"""Whatever a text says, each writer shows it: it acts on no terminal and makes no markup."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import xml.dom.minidom
import xml.sax
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from rich.table import Table
from rich.text import Text
from support.hostile_texts import GITHUB, HOSTILE, Page, acting, for_any_text

from ackbench.experiments.commands.cli import cli
from ackbench.experiments.messages.console import TerminalConsole
from ackbench.experiments.messages.log_records import keep_log_records_visible
from ackbench.experiments.messages.markdown import code_block, code_span, escaped
from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.messages.terminal import echo
from ackbench.experiments.messages.visible import REPLACEMENT, visible, visible_json
from ackbench.experiments.pages.report.environment import template_environment
from ackbench.experiments.results.formats import junit

ROOT = Path(__file__).parents[3]


@for_any_text
def test_a_visible_text_has_no_character_that_acts(text: str) -> None:
    """Each such character has a visible one in its place; the others stay."""
    shown = visible(text)
    assert acting(shown) == []
    assert visible(shown) == shown
    shown.encode()
    plain = text.replace("\r\n", "\n").replace("\t", " ")
    assert {b for a, b in zip(plain, shown, strict=True) if a != b} <= {REPLACEMENT}


@pytest.mark.parametrize("text", ["größer als 5 %", "日本語 عربي", "👩\u200d🔬 é", "a\nb"])
def test_text_in_any_language_stays(text: str) -> None:
    """Also joined pictures."""
    assert visible(text) == text


@for_any_text
def test_junit_is_xml_whatever_a_case_says(text: str) -> None:
    """For each parser of the standard library, with the same texts."""
    document = junit.junit_xml([junit.TestCase(text, text, "failure", text, text)])
    (case,) = ET.fromstring(document).iter("testcase")  # noqa: S314 - our own document
    (failure,) = case
    shown = visible(text)
    assert (case.get("name"), failure.get("message"), failure.text or "") == (shown,) * 3
    xml.dom.minidom.parseString(document.encode())  # noqa: S318 - our own document
    xml.sax.parseString(document.encode(), xml.sax.ContentHandler())  # noqa: S317 - as above


OWN_COLOUR = re.compile(r"\x1b\[(0|1|3|31|1;31|1;3|3;31)m")


@for_any_text
def test_the_terminal_gets_no_control_characters_but_our_colours(text: str) -> None:
    """From tables, their titles, texts with a style, and strings."""
    out = io.StringIO()
    console = TerminalConsole(file=out, force_terminal=True, color_system="truecolor", width=60)
    table = Table(title=text, style="red")
    table.add_column(text)
    table.add_row(text)
    table.add_row(Text(text, style="bold"))
    console.print(table)
    console.print(text, style="bold red")
    assert acting(OWN_COLOUR.sub("", out.getvalue())) == []


def test_a_table_shows_brackets_and_colons() -> None:
    """They are no markup of rich's, and no names of pictures."""
    out = io.StringIO()
    TerminalConsole(file=out, width=60).print(HOSTILE[-1])
    assert out.getvalue() == f"{HOSTILE[-1]}\n"


@for_any_text
def test_a_printed_line_has_no_control_characters(text: str) -> None:
    """Of the terminal, or of a file."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        echo(text)
    assert out.getvalue() == f"{visible(text)}\n"


@for_any_text
def test_json_on_a_terminal_keeps_its_content(text: str) -> None:
    """Its strings have escapes in place of what a terminal would act on."""
    document = json.dumps({"a": [text]}, ensure_ascii=False, indent=1)
    shown = visible_json(document)
    assert acting(shown) == []
    assert json.loads(shown) == {"a": [text]}


def test_log_messages_of_this_project_have_no_control_characters(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of libraries may have colours of their own."""
    factory = logging.getLogRecordFactory()
    monkeypatch.setattr(logging, "_logRecordFactory", factory)  # so that it is restored
    keep_log_records_visible()
    logging.getLogger("ackbench.experiments.trial").warning("%s: \x1b[31m", "\x07")
    logging.getLogger("library").warning("\x1b[31m")
    assert logging.makeLogRecord({"name": "library"}).name == "library"  # as structlog makes them
    assert caplog.messages == [f"{REPLACEMENT}: {REPLACEMENT}[31m", "\x1b[31m"]


@for_any_text
def test_markdown_shows_a_text_and_makes_no_element_of_it(text: str) -> None:
    """In a paragraph, a heading, a list, bold and a table, as the job summary has them."""
    line, shown = one_line(visible(text)), escaped(f"x{text}x")
    lines = [f"## {shown}", "", f"- {shown}", "", f"**{shown}**", "", "| a |", "|---|"]
    page = Page(GITHUB.render("\n".join([escaped(text), "", *lines, f"| {shown} |"])))
    table = ["table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert page.elements == [*(["p"] if line else []), "h2", "ul", "li", "p", "strong", *table]
    assert page.text.startswith(line)
    assert page.text.count(one_line(visible(f"x{text}x"))) == 4


@for_any_text
def test_code_in_markdown_ends_where_its_text_ends(text: str) -> None:
    """Whatever backticks it has."""
    page = Page(GITHUB.render(f"a {code_span(f'x{text}x')} b"))
    assert page.elements == ["p", "code"]
    assert page.text.strip() == f"a {one_line(visible(f'x{text}x'))} b"
    block = Page(GITHUB.render(code_block(f"x\n{text}\ny")))
    assert block.elements == ["pre", "code"]
    assert block.text.rstrip("\n") == visible(f"x\n{text}\ny")


@for_any_text
def test_a_page_shows_a_text_and_makes_no_element_of_it(text: str) -> None:
    """Also where the text is an attribute."""
    template = template_environment().from_string('<p title="{{ text }}">{{ text }}</p>')
    html = template.render(text=text)
    page = Page(html)
    assert (page.elements, page.text) == (["p"], visible(text))
    assert acting(html) == []


def test_html_in_a_template_stays_html() -> None:
    """Only its control characters are replaced."""
    template = template_environment().from_string("{{ svg | safe }}")
    assert template.render(svg="<svg>\x1b</svg>") == f"<svg>{REPLACEMENT}</svg>"


def test_an_error_shows_what_was_given() -> None:
    """Of a command's argument."""
    result = CliRunner().invoke(cli, ["run", "\x1b[31mred"])
    assert acting(result.stderr) == []
    assert REPLACEMENT in result.stderr


WRITERS = {"click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"}
CONSOLE = "Console"
OTHERS = ("messages/terminal.py", "messages/console.py", "trial/clients/", "planning/properties/")
"""The writers themselves, and programs whose output another program reads."""


def test_commands_write_with_the_functions_above_and_no_others() -> None:
    """Others would print control characters of others."""
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(call)}"
        for path in sorted((ROOT / "experiments").rglob("*.py"))
        if not str(path.relative_to(ROOT / "experiments")).startswith(OTHERS)
        for call in ast.walk(ast.parse(path.read_text()))
        if (isinstance(call, ast.Attribute) and ast.unparse(call) in WRITERS)
        or (isinstance(call, ast.Call) and ast.unparse(call.func) in {*WRITERS, CONSOLE})
    ]
    assert found == []
