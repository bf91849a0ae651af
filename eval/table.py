"""Tables as plain text, Markdown, LaTeX and HTML; markup in names is escaped."""

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """A cell and its marks."""

    text: str
    is_best: bool = False
    stars: str = ""


class _Format(NamedTuple):
    escape: Callable[[str], str]
    best: str  # formats the best cell of a line
    best_note: str

    def cell(self, cell: Cell) -> str:
        text = self.escape(cell.text)
        return (self.best.format(text) if cell.is_best else text) + self.escape(cell.stars)


@dataclass(frozen=True, slots=True)
class Table:
    """Cells under a header, with a title above and remarks below.

    >>> print(Table("", ("", "a|b"), (False, True), [(Cell("F_1"), Cell("0.5", True, "*"))], ["* p < 0.05"]))
           a|b
    F_1  >0.5*
    <BLANKLINE>
    > the best of its line
    * p < 0.05
    """

    title: str
    names: tuple[str, ...]  # names of the columns
    is_number: tuple[bool, ...]  # whether each column has numbers, which are right-aligned
    cells: list[tuple[Cell, ...]]
    remarks: list[str]

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns as plain text."""
        return tuple(map(_TEXT.escape, self.names))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells as plain text; a column with stars is padded so that its numbers are aligned."""
        stars = [max(len(cell.stars) for cell in column) for column in zip(*self.cells, strict=True)]
        return [
            tuple(_TEXT.cell(cell) + " " * (n - len(cell.stars)) for cell, n in zip(row, stars, strict=True))
            for row in self.cells
        ]

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        adjust = [str.rjust if right else str.ljust for right in self.is_number]
        padded = ([put(cell, width) for put, cell, width in zip(adjust, line, widths, strict=True)] for line in lines)
        body = ["  ".join(cells).rstrip() for cells in padded]
        return "\n\n".join("\n".join(part) for part in ([_TEXT.escape(self.title)], body, self.notes()) if any(part))

    def to_markdown(self) -> str:
        """Return the table in the Markdown of GitHub."""
        lines = [
            map(_MARKDOWN.escape, self.names),
            ("--:" if right else ":--" for right in self.is_number),
            *(map(_MARKDOWN.cell, row) for row in self.cells),
        ]
        body = [f"| {' | '.join(line)} |" for line in lines]
        title = [f"**{_MARKDOWN.escape(self.title)}**"] if self.title else []
        notes = [f"- {note}" for note in self.notes(_MARKDOWN)]
        return "\n\n".join("\n".join(part) for part in (title, body, notes) if part)

    def to_latex(self) -> str:
        """Return the table as LaTeX with booktabs, escaped for pdfLaTeX and its successors."""
        title = self.title or f"Scores of {', '.join(filter(None, self.names))}"
        label = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-").lower()
        lines = [map(_LATEX.escape, self.names), *(map(_LATEX.cell, row) for row in self.cells)]
        head, *body = [f"{' & '.join(line)} \\\\" for line in lines]
        rows = [
            "% \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_LATEX.escape(title)}}}",
            f"\\label{{tab:{label}}}",
            f"\\begin{{tabular}}{{{''.join('r' if right else 'l' for right in self.is_number)}}}",
            "\\toprule",
            head,
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            *(f"\\par{{\\footnotesize {note}\\par}}" for note in self.notes(_LATEX)),
            "\\end{table}",
        ]
        return "\n".join(rows)

    def to_html(self) -> str:
        """Return the table in HTML, for a notebook."""

        def line(tag: str, cells: Iterable[str]) -> str:
            sides = ("right" if right else "left" for right in self.is_number)
            shown = (f'<{tag} style="text-align: {side}">{one}</{tag}>' for side, one in zip(sides, cells, strict=True))
            return f"<tr>{''.join(shown)}</tr>"

        head = line("th", map(_HTML.escape, self.names))
        body = "\n".join(line("td", map(_HTML.cell, row)) for row in self.cells)
        title = f"<p><b>{_HTML.escape(self.title)}</b></p>\n" if self.title else ""
        notes = "".join(f"\n<p>{note}</p>" for note in self.notes(_HTML))
        return f"{title}<table>\n<thead>{head}</thead>\n<tbody>{body}</tbody>\n</table>{notes}"

    def notes(self, form: _Format | None = None) -> list[str]:
        """Return the remarks as plain text or in a format, with the one about the mark of the best cell."""
        form = form or _TEXT
        best = [form.best_note] if any(cell.is_best for row in self.cells for cell in row) else []
        return best + [form.escape(remark) for remark in self.remarks]


def plain(text: str) -> str:
    """Put a text on one line, and escape unprintable and control characters."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


_LATEX_CHARACTERS: dict[str, str | int | None] = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "''",
    **{char: f"\\{char}" for char in "{}$&#_%"},
    **{char: f"{{{char}}}" for char in "[]*"},  # at the start of a line, \\ would take them for its arguments
}


_TEXT = _Format(plain, ">{}", "> the best of its line")
_MARKDOWN = _Format(
    lambda text: re.sub(r"([\\`*_\[\]|~$])", r"\\\1", html.escape(plain(text), quote=False)),
    "**{}**",
    "bold: the best of its line",
)
_HTML = _Format(lambda text: html.escape(plain(text)), "<b>{}</b>", "bold: the best of its line")
_LATEX = _Format(
    lambda text: plain(text).translate(str.maketrans(_LATEX_CHARACTERS)),
    "\\textbf{{{}}}",
    "Bold: the best of its line.",
)
