"""LaTeX to MathML while the page is built: browsers draw MathML themselves, so pages need no script and no network."""

import html
import re

from latex2mathml.converter import convert

BARS = r"<mo>(&#x02016;|&#x0007C;)</mo>"  # of a norm or an absolute value; browsers stretch only the left one
SIZED_NORM = r"\\[bB]igg?[lr]?\s*(?=\\(\||[lr][vV]ert))"  # the converter does not know norms with a size
# The converter knows the aligned environments under these names only.
SYNONYMS = {"aligned": "align*", "gathered": "align*", "equation": "", "equation*": "", "eqnarray": "align*"}


def mathml(latex: str, display: bool = False) -> str:
    """One formula; if it cannot be converted, its LaTeX source is shown."""
    source = re.sub(r"\\(begin|end)\{([a-z]+\*?)\}", _known_environment, re.sub(SIZED_NORM, "", latex)).strip()
    try:
        drawn = convert(source, display="block" if display else "inline")
    except Exception:  # the converter raises many kinds, also IndexError and KeyError
        return f'<code class="latex">{html.escape(latex)}</code>'
    drawn = re.sub(BARS, r'<mo fence="false" stretchy="false">\1</mo>', drawn)
    return re.sub(r'<math xmlns="[^"]*"', lambda _: f'<math alttext="{html.escape(latex.strip())}"', drawn, count=1)


def _known_environment(match: re.Match[str]) -> str:
    name = SYNONYMS.get(match[2], match[2])
    return f"\\{match[1]}{{{name}}}" if name else ""
