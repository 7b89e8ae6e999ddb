# SPDX-License-Identifier: Apache-2.0
"""One name, one type: refuses a class, struct, union or enum whose qualified name is defined in two places. check_names.py ROOT

Two types of one name break the one-definition rule without a word from compiler or linker. Names carry their namespaces and classes; types in
unnamed namespaces and in functions are their file's own and are left out; so are declarations without a body.
"""
import pathlib
import re
import sys

TOKEN = re.compile(r"""
  (?P<skip> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]* | R"(?P<end>[^(\s]*)\(.*?\)(?P=end)" | "(?:\\.|[^"\\\n])*" | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+' | \s+ )
  | (?P<word> [0-9A-Za-z_]['0-9A-Za-z_]* ) | (?P<other> :: | . )""", re.VERBOSE | re.DOTALL | re.MULTILINE)
KINDS = {"class", "struct", "union", "enum"}


def tokens(text):
    line = 1
    for match in TOKEN.finditer(text):
        if match["skip"] is None:
            yield match[0], line
        line += match[0].count("\n")


def without_brackets(head, opening, closing):
    out, depth = [], 0
    for word in head:
        depth += word == opening
        if depth == 0:
            out.append(word)
        depth -= word == closing
    return out


def opened(head):
    """What the brace behind these tokens opens: ("namespace" | "type", its name) or ("other", "")."""
    if "namespace" in head and "using" not in head:
        name = [w for w in head[head.index("namespace") + 1:] if w != "inline"]
        return "namespace", "".join(name)
    if head[:1] == ["extern"] and len(head) == 1:  # extern "C": the text is not a token
        return "namespace", None
    if head[:1] == ["template"]:  # the parameters may say class; what follows is what is defined
        depth, at = 0, 1
        for at in range(1, len(head)):
            depth += (head[at] == "<") - (head[at] == ">")
            if depth == 0:
                break
        return opened(head[at + 1:])
    if head[:1] == ["requires"]:
        kinds = [i for i, word in enumerate(head) if word in KINDS]
        return opened(head[kinds[-1]:]) if kinds else ("other", "")
    head = without_brackets(without_brackets([w for w in head if w not in ("static", "inline", "constexpr", "const", "typedef", "final")], "[", "]"), "alignas", ")")
    if not head or head[0] not in KINDS or "=" in head:
        return "other", ""
    head = [w for w in head[1:] if w not in ("class", "struct")]
    name, depth = [], 0
    for word in head:
        depth += (word == "<") - (word == ">")
        if depth == 0 and word == ":":
            break
        if depth == 0 and (word == "(" or (name and re.match(r"\w", name[-1]) and re.match(r"\w", word))):
            return "other", ""  # a function that returns one
        name.append(word)
    return "type", "".join(name)


def types_in(text):
    """(qualified name, line) of each type that a file defines for more than itself."""
    found, scopes, head = [], [], []
    for word, line in tokens(text):
        if word == "{":
            kind, name = opened(head)
            scopes.append((kind, name))
            if kind == "type" and name and all(k != "other" and n != "" for k, n in scopes):
                found.append(("::".join(n for _, n in scopes if n), line))
            head = []
        elif word == "}":
            if scopes:
                scopes.pop()
            head = []
        elif word == ";" or (word == ":" and head in (["public"], ["private"], ["protected"])):
            head = []
        else:
            head.append(word)
    return found


SAMPLE = """
#define OPEN struct Hidden {
namespace a::b { struct Twin; class Twin final : public Base<int> { enum class Kind : char { x = '{' }; struct { int y; } at{}; }; }
namespace a { namespace { struct Own {}; } enum Colour { red }; struct Twin f() { struct Local {}; return {}; } const char* t = R"(struct Text {})"; }
struct a::b::Twin::Deep { }; template <class T> struct Box {}; template <> struct Box<int> {}; extern "C" { struct Plain {}; } struct Last { int n = 1'000; } last{};
"""


def main(root):
    got = [name for name, _ in types_in(SAMPLE)]
    want = ["a::b::Twin", "a::b::Twin::Kind", "a::Colour", "a::b::Twin::Deep", "Box", "Box<int>", "Plain", "Last"]
    if got != want:
        print(f"the sample's types are {want}, found {got}")
        return 1
    places = {}
    for folder in ("include", "lib", "mesh", "kernels", "profiler", "app"):
        for file in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp", ".cu", ".inl", ".inc")):
            for name, line in types_in(file.read_text()):
                places.setdefault(name, []).append(f"{file.relative_to(root).as_posix()}:{line}")
    wrong = [f"{name} is defined in {' and '.join(at)}; rename all but one" for name, at in sorted(places.items()) if len(at) > 1]
    print("\n".join(wrong + [f"{len(places)} types, {len(wrong)} defined twice"]))
    return 1 if wrong or not places else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
