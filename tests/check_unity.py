# SPDX-License-Identifier: Apache-2.0
"""The files of a target can be compiled as one (meson's -Dunity=on), in groups of any size. check_unity.py ROOT BUILD

What a file declares for itself is then seen by the files after it. Refused, naming both places: a name of a file's own (in an unnamed namespace, static,
or a constant) that another file of its target declares too, unless both are functions whose parameters tell them apart or the same alias; a type,
alias, constant or function of a file's own that a header declares in the same namespace (a function whose parameters are found by their types' namespace
is not hidden); and what has no end: a using-directive at namespace scope, a #define
without its #undef, a #pragma without push and pop.
"""
import json
import pathlib
import re
import sys
import tempfile

from check_names import KINDS, TOKEN, opened, tokens

ARITHMETIC = set("bool char int short long unsigned signed float double Index size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t std :: const &".split())
IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
SKIPPED = {"requires", "noexcept", "decltype", "alignas", "explicit", "__attribute__", "operator", "static_assert"}
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?P<what>define|undef|pragma)[ \t]+(?P<words>[^\n]*)")


def split_at_commas(head):
    pieces, depth, started = [[]], 0, False
    for word in head:
        started |= word == "="
        depth += word in ("(", "[", "{") or (word == "<" and not started)
        depth -= word in (")", "]", "}") or (word == ">" and not started and depth > 0)
        if word == "," and depth == 0:
            pieces.append([])
            started = False
        else:
            pieces[-1].append(word)
    return pieces


def outside(head):
    """What is not in brackets."""
    out, depth = [], 0
    for word in head:
        depth -= word in (")", "]", "}")
        if depth == 0:
            out.append(word)
        depth += word in ("(", "[", "{")
    return out


def closing_of(head, at):
    """One past the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(head)):
        depth += (head[end] in "([{<") - (head[end] in ")]}>")
        if depth == 0:
            return end + 1
    return len(head)


def without_template(head):
    """(what follows template <...> and requires, whether there was a template)"""
    if head[:1] != ["template"]:
        return head, False
    head = head[closing_of(head, 1):]
    if head[:1] != ["requires"]:
        return head, True
    at = 1
    while at < len(head):  # A<T> && requires(T x) { ... } || (...)
        at += head[at] == "requires"
        if head[at:at + 1] == ["("]:
            at = closing_of(head, at)
            at = closing_of(head, at) if head[at:at + 1] == ["{"] else at
        else:
            while head[at + 1:at + 2] == ["::"]:
                at += 2
            at = closing_of(head, at + 1) if head[at + 1:at + 2] == ["<"] else at + 1
        if head[at:at + 2] not in (["&", "&"], ["|", "|"]):
            break
        at += 2
    return head[at:], True


def parameters_of(head, at):
    """The types between the bracket at `at` and its end: a list of texts, without names and defaults."""
    depth, end = 0, at
    for end in range(at, len(head)):
        depth += (head[end] == "(") - (head[end] == ")")
        if depth == 0:
            break
    types = []
    for piece in split_at_commas(head[at + 1:end]):
        piece = piece[:piece.index("=")] if "=" in piece else piece
        if len(piece) > 1 and IDENTIFIER.match(piece[-1]) and piece[-2] not in ("::", "const"):
            piece = piece[:-1]
        if piece:
            types.append(" ".join(piece))
    return types


def declared(head):
    """[(name, kind, text)] that this declaration declares; kind: type, alias, constant, function, template."""
    head, is_template = without_template(head)
    plain = [w for w in head if w not in ("static", "inline", "constexpr", "const", "constinit", "thread_local")]
    if not plain or plain[0] in ("friend", "static_assert", "extern", "return") or plain[:2] == ["using", "enum"]:
        return []
    if plain[0] in ("using", "namespace"):
        return [(plain[1], "alias", " ".join(plain))] if plain[2:3] == ["="] else []
    if plain[0] in KINDS:
        names = [w for w in plain[1:] if w not in ("class", "struct")]
        if names and IDENTIFIER.match(names[0]) and (len(names) == 1 or names[1] in (":", "final")):
            return [(names[0], "type", "")]
        if names and names[0] == ":" or not names:
            return []
    first = split_at_commas(head)[0]
    depth = 0
    for at, word in enumerate(first):
        if word == "=":
            break
        depth += (word == "<") - (word == ">")
        if word == "(" and depth == 0 and at > 0 and IDENTIFIER.match(first[at - 1]) and first[at - 1] not in SKIPPED:
            if "operator" in first[:at] or first[at - 2:at - 1] == ["::"]:
                return []
            if re.match(r"k[A-Z]|g_", first[at - 1]):
                break  # a variable, with arguments of its constructor
            return [(first[at - 1], "template" if is_template else "function", parameters_of(first, at))]
    found = []
    for piece in split_at_commas(head):
        end = next((i for i, w in enumerate(piece) if w in ("=", "{", "[", "(")), len(piece))
        if end > 0 and IDENTIFIER.match(piece[end - 1]) and (not found and end > 1 or found and end == 1) and piece[end - 2:end - 1] != ["::"]:
            found.append((piece[end - 1], "constant", ""))
    return found


def names_in(text, of_all=False):
    """[(namespace, name, kind, text, line)] of what a file declares for itself (of_all: of all), and [(what, line)] of using-directives at namespace scope."""
    for short, long in re.findall(r"^namespace (\w+) = ([\w:]+);", text, re.M):  # parameters are compared as texts
        text = re.sub(rf"\b{short}::", f"{long}::", text)
    found, directives, scopes, head, line_of = [], [], [], [], 0
    depth, closing = 0, None  # inside brackets or braces of a declaration

    def end():
        unnamed = "" in scopes
        constant = head[:1] == ["constexpr"] or head[:1] == ["const"] and "*" not in head or head[:1] == ["static"]
        if head[:2] == ["using", "namespace"]:
            if not head[-1].endswith("literals"):
                directives.append((" ".join(head), line_of))
        elif head and (of_all or unnamed or constant and "inline" not in head):
            found.extend(("::".join(s for s in scopes if s), *one, line_of) for one in declared(head)
                         if of_all or unnamed or head[0] == "static" or one[1] == "constant")
        head.clear()

    for word, line in tokens(text):
        if depth > 0:
            depth += word in "([{"
            depth -= word in ")]}"
            if depth == 0 and word == "}" and closing == "body":
                end()
            elif closing != "body":
                head.append(word)
            continue
        if not head:
            line_of = line
        if word == "{":
            kind, name = opened(head)
            if kind == "namespace":
                scopes.append(name)
                head.clear()
                continue
            is_type = kind == "type" or any(w in KINDS for w in without_template(head)[0][:2])
            last = len(head) - 1 - head[::-1].index("requires") if "requires" in head else None
            is_requirement = last is not None and head[last + 1:last + 2] == ["("] and closing_of(head, last + 1) == len(head)
            is_function = not is_type and not is_requirement and "=" not in outside(head) and head and (head[-1] in (")", "const", "noexcept", "override") or "->" in head or ":" in head)
            depth, closing = 1, "body" if is_function else "type" if is_type else "braces"
            if is_type:
                end()
                head.append("struct")  # names of variables after it are not looked for
                closing = "body"
                continue
            if not is_function:
                head.append(word)
        elif word == "}":
            if scopes:
                scopes.pop()
            head.clear()
        elif word == ";":
            end()
        else:
            head.append(word)
            if word in "([":
                depth, closing = 1, "brackets"
    return found, directives


def endless_in(text):
    """[(what, line)]: macros without #undef, and pragmas that hold for what follows."""
    found, pushed, defined = [], 0, {}
    for match in TOKEN.finditer(text):
        directive = DIRECTIVE.match(match["skip"] or "")
        if directive is None:
            continue
        line, words = text.count("\n", 0, match.start()) + 1, directive["words"]
        name = re.match(r"\w*", words)[0]
        if directive["what"] == "define":
            defined[name] = line
        elif directive["what"] == "undef":
            defined.pop(name, None)
        elif name not in ("once", "omp"):
            pushed += ("push" in words) - ("pop" in words)
            if pushed == 0 and "pop" not in words:
                found.append((f"#pragma {words}", line))
    return found + [(f"#define {name} without #undef", line) for name, line in defined.items()]


def differ(a, b):
    """Whether two declarations of one name can stand beside each other."""
    if a[0] == b[0] == "alias":
        return a[1] == b[1]
    if not {a[0], b[0]} <= {"function", "template"}:
        return False
    if len(a[1]) != len(b[1]):
        return True
    return a[0] == b[0] == "function" and any(x != y and not (set(x.split()) <= ARITHMETIC and set(y.split()) <= ARITHMETIC) for x, y in zip(a[1], b[1]))


def sources_of(target):
    """The C++ files of a target; with unity=on, those that its joined files include."""
    for group in target["target_sources"]:
        for name in group.get("sources", []) + group.get("generated_sources", []):
            path = pathlib.Path(name)
            if path.suffix != ".cpp" or not path.exists():
                continue
            if re.search(r"-unity\d+\.cpp$", name):
                joined = re.findall(r"^#include\s*[<\"](.*)[>\"]", path.read_text(), re.MULTILINE)
                yield from (pathlib.Path(p).resolve() for p in joined if pathlib.Path(p).exists())
            else:
                yield path.resolve()


def declared_by_headers(root):
    """(namespace, name) -> place, of what all may see: types, aliases, constants, and functions that are found by their name alone."""
    found = {}
    for folder in ("include", "lib", "mesh", "kernels", "profiler", "app"):
        for header in sorted((root / folder).rglob("*.h")):
            for space, name, kind, text, line in names_in(header.read_text(), of_all=True)[0]:
                if kind in ("type", "alias", "constant", "template") or not any(re.search(r"(?<!:: )\b[A-Z]\w", t.replace("Index", "")) for t in text):
                    found.setdefault((space, name), f"{header.relative_to(root).as_posix()}:{line}")
    return found


def faults(root, targets, headers):
    """targets: lists of files. The faults as sentences, and the number of names."""
    wrong, counted, read = set(), 0, {}
    for files in targets:
        if len(files) < 2:
            continue
        names = {}
        for file in files:
            shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
            if file not in read:
                text = file.read_text()
                own, directives = names_in(text)
                read[file] = own
                wrong.update(f"{shown}:{line}: {what}: it also holds for the files that are joined after this one; end it, or name what it is for" for what, line in directives + endless_in(text))
            for space, name, kind, text, line in read[file]:
                place = f"{shown}:{line}"
                if (space, name) in headers:
                    wrong.add(f"{space}::{name} is declared in {place} for this file alone, and in {headers[space, name]} for all; rename one")
                for other, other_kind, other_text, other_place in names.setdefault((space, name), []):
                    if other != file and not differ((kind, text), (other_kind, other_text)):
                        wrong.add(f"{space}::{name} is declared in {other_place} and in {place}, each for its file alone, but the two files can be joined; rename one, or share it")
                names[space, name].append((file, kind, text, place))
        counted += len(names)
    return sorted(wrong), counted


SAMPLE = {
    "a.cpp": """
#define LEFT 1
namespace m { namespace { const Kind kKind("a", {1}, [](int x) { return x < 2; }); constexpr Index kA = 1 << 3, kB = f<1, 2>(), kC{4}; struct Own { int kKind; };
namespace fs = std::filesystem; template <class T> void shared(const T& x) { int kLocal = 0; } Formula product() { return {}; } int rounded(double x) { return 1; }
std::string text(const A& a) { return ""; } bool alone(int a, int b = 1) { return a < b; } void aliased(const std::filesystem::path& p) {} enum class Colour : char { red }; using Sizes = std::vector<int>; }
static const Kind kStatic("b"); inline constexpr int kShared = 2; void seen() {} int Own::member() { return 0; } }
""",
    "b.cpp": """
#define UNDONE 1
#undef UNDONE
#pragma GCC target("avx2")
namespace m { namespace { using namespace other; const Kind kKind{"b"}; constexpr Index kB = 2; class Own final : public Base { void f() {} };
namespace fs = std::filesystem; std::string shared(int x) { int kA = 0; return "" ; } Formula product() { return {}; } int rounded(int x) { return 1; }
std::string text(const B& b) { return ""; } struct Colour; void aliased(const fs::path& p) {} double kC = 1; int hidden(const B& b) { return 1; } }
static const Kind kStatic("c"); inline constexpr int kShared = 2; void seen(int) {} }
""",
    "seen.h": "namespace m { using Sizes = std::map<int, int>; struct Other { int kLocal; }; template <class T> int hidden(T x); std::string text(const Other& o); }\n",
}
WANTED = ["LEFT", "target", "using namespace other", "kKind", "kB", "kC", "Own", "shared", "product", "rounded", "Colour", "Sizes", "kStatic", "hidden", "aliased"]


def check_sample():
    """Whether the rules find what they are for: the faults of the sample, and no others."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        (root / "lib").mkdir()
        for name, text in SAMPLE.items():
            (root / "lib" / name).write_text(text)
        joined = [root / "lib" / name for name in ("a.cpp", "b.cpp")]
        found, _ = faults(root, [joined], declared_by_headers(root))
        alone, _ = faults(root, [joined[:1], joined[1:]], {})
        missing = [w for w in WANTED if not any(re.search(rf"\b{w}\b", f) for f in found)]
        if missing or len(found) != len(WANTED) or alone:
            print("\n".join([f"the sample's faults: missing {missing}, found"] + found + alone))
            return False
    return True


def main(root, build):
    if not check_sample():
        return 1
    targets = json.loads((build / "meson-info/intro-targets.json").read_text())
    # Programs of one file or two are not joined (tests/meson.build).
    apart = [root / "tests", root / "bench"]
    targets = [t for t in targets if t["type"] != "executable" or not any(pathlib.Path(t["defined_in"]).is_relative_to(folder) for folder in apart)]
    targets = [list(dict.fromkeys(sources_of(t))) for t in targets]
    wrong, counted = faults(root, targets, declared_by_headers(root))
    print("\n".join(wrong + [f"{sum(len(t) > 1 for t in targets)} targets, {counted} names of files' own, {len(wrong)} faults"]))
    return 1 if wrong or counted == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])))
