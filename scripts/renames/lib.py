"""Renames identifiers, modules and the files that belong to them. Run with the repository root as working directory.

    from lib import *
    rename_words("crates/bardo-safety/**", {"OldType": "NewType"})     # every such word in code, `code` in comments
    rename_fns("**", {"told": "describe"}, exclude=["crates/golem/**"])  # only where a function is declared, called or named by path
    rename_fields("crates/x/src/a.rs", {"old": "new"})                 # .old, old: …, {old, …} but not old(…)
    rename_variants("**", {"Treatment::GiveBack": "DropNonce"})          # Type::Old, Self::Old and the definition
    rename_paths("**", {"settle::Leave": "settle::ResendClearance"})   # token sequence; white space around :: and . is free
    patterns("crates/x/**", [(r"\bLook\b(?= as _)", "ChainView")])      # regular expressions on code without comments and strings
    move_module("crates/x/src/a/told.rs", "crates/x/src/a/describe.rs") # git mv, mod line, paths, snapshots, docs
    keep_written("crates/x/src/a.rs", "Owner", "new_field", "old_field") # adds #[serde(rename = "old_field")]
    replace_strings("tests/**", {"crates/x/src/a.rs": "crates/x/src/b.rs"}) # inside string literals
    replace_text("**/*.md", [(r"`a::told`", "`a::describe`")])          # any text file
    finish()                                                           # writes; prints what was changed and what did nothing

Globs are relative to the root; `**` crosses folders; a folder's `/**` takes all below. Every call is idempotent: a word that is
gone already is skipped. A new name that is in the files already while the old one is too is reported as COLLISION (look at it).
A file that a call of move_module moved is found under its old and its new path by later calls (so a script runs on both states).
"""
import fnmatch
import os
import re
import subprocess
import sys

SKIP = ("target/", ".git/", "node_modules/")
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)|(?P<block>/\*)|(?P<raw>(?<![A-Za-z0-9_])[bc]?r(?P<hash>\#*)".*?"(?P=hash))"""
    r"""|(?P<string>"(?:\\.|[^"\\])*")|(?P<char>'(?:\\(?:u\{[0-9a-fA-F_]+\}|x[0-9a-fA-F]{2}|.)|[^\\'\n])')""",
    re.S,
)
BACKTICKS = re.compile(r"`[^`\n]+`|\[[A-Za-z_][\w:]*\](?=[\s.,;:)]|$)")


def lex(text):
    """Segments [kind, text], kind in code, comment, string; together they are the text."""
    out, at, last = [], 0, 0
    while (m := TOKEN.search(text, at)):
        start, end = m.span()
        if m.lastgroup == "block" or m.group("block"):
            depth, end = 1, start + 2
            while depth and end < len(text):
                if text.startswith("/*", end):
                    depth, end = depth + 1, end + 2
                elif text.startswith("*/", end):
                    depth, end = depth - 1, end + 2
                else:
                    end += 1
            kind = "comment"
        elif m.group("comment"):
            kind = "comment"
        elif m.group("char"):
            at = end
            continue
        else:
            kind = "string"
        if start > last:
            out.append(["code", text[last:start]])
        out.append([kind, text[start:end]])
        at = last = end
    if last < len(text):
        out.append(["code", text[last:]])
    return out


def _plain(word):
    """An English word by its shape: not to be replaced in the prose of comments."""
    return re.fullmatch(r"[A-Z]?[a-z]+|[A-Z]+", word) is not None


class Tree:
    def __init__(self):
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
        self.names = {n for n in names.splitlines() if not n.startswith(SKIP) and os.path.exists(n)}
        self.rust, self.texts, self.dirty = {}, {}, set()
        self.moved = {}  # old -> new path
        self.log = []
        for name in sorted(self.names):
            if name.endswith(".rs"):
                self.rust[name] = lex(open(name, encoding="utf-8").read())

    # -- files ------------------------------------------------------------------------------------------------------
    def matching(self, globs, exclude=(), among=None):
        globs, exclude = _list(globs), _list(exclude)
        extra = [g for g in globs for g in self._where_now(g)]
        hidden = [g for g in exclude for g in self._where_now(g)]
        tests = [_glob(g) for g in extra]
        nots = [_glob(g) for g in hidden]
        return [
            n
            for n in (self.rust if among is None else among)
            if any(t.match(n) for t in tests) and not any(t.match(n) for t in nots)
        ]

    def _where_now(self, pattern):
        """The pattern, and what it is called after the moves made so far (by this run or an earlier one)."""
        out = [pattern]
        for old, new in self.moved.items():
            for candidate in list(out):
                if candidate == old:
                    out.append(new)
                old_dir, new_dir = _dir(old) + "/", _dir(new) + "/"
                if candidate.startswith(old_dir):
                    out.append(new_dir + candidate[len(old_dir) :])
        return out

    def text(self, name):
        if name in self.rust:
            return "".join(t for _, t in self.rust[name])
        if name not in self.texts:
            self.texts[name] = open(name, encoding="utf-8", errors="surrogateescape").read()
        return self.texts[name]

    def set_text(self, name, text):
        if text != self.text(name):
            self.dirty.add(name)
            if name in self.rust:
                self.rust[name] = lex(text)
            else:
                self.texts[name] = text

    # -- code -------------------------------------------------------------------------------------------------------
    def code(self, globs, regex, replace, exclude=(), comments=False, note=None, plain=False):
        """Applies a regular expression to code segments, and to `code` in comments (or all of the comment)."""
        count = 0
        for name in self.matching(globs, exclude):
            changed = False
            for segment in self.rust[name]:
                kind, body = segment
                if kind == "code":
                    new, n = regex.subn(replace, body)
                elif kind == "comment" and comments:
                    if plain:
                        hits = [0]

                        def inner(m):
                            out, k = regex.subn(replace, m.group(0))
                            hits[0] += k
                            return out

                        new, n = BACKTICKS.sub(inner, body), hits[0]
                    else:
                        new, n = regex.subn(replace, body)
                else:
                    continue
                if n and new != body:
                    segment[1] = new
                    changed, count = True, count + n
            if changed:
                self.dirty.add(name)
        if note:
            self.log.append((count, note))
        return count

    def has_word(self, globs, word, exclude=()):
        test = re.compile(rf"(?<![\w'#]){re.escape(word)}\b")
        return [n for n in self.matching(globs, exclude) if any(k == "code" and test.search(t) for k, t in self.rust[n])]


def _list(x):
    return [x] if isinstance(x, str) else list(x)


def _dir(path):
    """The folder of a module's children."""
    if path.endswith("/mod.rs"):
        return path[: -len("/mod.rs")]
    return path[:-3] if path.endswith(".rs") else path.rstrip("/")


def _glob(pattern):
    out = ""
    i = 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + r"(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            out, i = out + r".*", i + 2
        elif pattern[i] == "*":
            out, i = out + r"[^/]*", i + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return re.compile(out + r"\Z")


_tree = None


def tree():
    global _tree
    if _tree is None:
        _tree = Tree()
    return _tree


def _check(globs, mapping, exclude):
    for old, new in mapping.items():
        if new in mapping and new != old:
            raise SystemExit(f"{old} -> {new} -> {mapping[new]}: running twice would rename twice")
        t = tree()
        there = t.has_word(globs, old, exclude)
        if there:
            both = set(t.has_word(there, new))
            if both:
                print(f"COLLISION {old} -> {new}: {new} is in {sorted(both)[:4]} already")


def _one(mapping, before, after, globs, exclude, what, captures=False, quiet=False):
    if not quiet:
        _check(globs, mapping, exclude)
    for old, new in mapping.items():
        regex = re.compile(before + rf"(?<![\w'#]){re.escape(old)}\b" + after)
        replace = _type_only(new) if old[0].isupper() and not old.isupper() else new
        tree().code(globs, regex, replace, exclude, comments=True, plain=_plain(old), note=f"{what} {old} -> {new} in {globs}")
        if captures and not old[0].isupper():
            hit = re.compile(r"(?<!\{)\{" + re.escape(old) + r"(?=[:}])")
            for name in tree().matching(globs, exclude):
                for segment in tree().rust[name]:
                    if segment[0] == "string" and hit.search(segment[1]):
                        segment[1] = hit.sub("{" + new, segment[1])
                        tree().dirty.add(name)


def _type_only(new):
    """Leaves `Type::Old` alone: that is a variant or an associated item, not the type."""
    return lambda m: m.group(0) if re.search(r"(?<!\w)[A-Z]\w*\s*::\s*$", m.string[: m.start()][-80:]) else new


def rename_variants(globs, mapping, exclude=()):
    """`{"Type::Old": "New"}`: `Type::Old` where it is used, `Self::Old` and `Old` in the file that defines the type."""
    for old, new in mapping.items():
        owner, name = old.split("::")
        regex = re.compile(rf"(?<![\w'])({owner}\s*::\s*){name}\b")
        tree().code(globs, regex, rf"\g<1>{new}", exclude, comments=True, plain=False, note=f"variant {old} -> {new}")
        for file in tree().matching(globs, exclude):
            text = tree().text(file)
            start = re.search(rf"\benum {owner}\b[^{{]*\{{", text)
            if not start:
                continue
            end = text.find("\n}", start.end())
            body = re.sub(rf"(?m)^(\s+){name}(?=\s*[,({{=])", rf"\g<1>{new}", text[start.end() : end])
            rest = re.sub(rf"\bSelf::{name}\b", f"Self::{new}", text[end:])
            tree().set_text(file, text[: start.end()] + body + rest)


def rename_words(globs, mapping, exclude=(), quiet=False):
    """Every word `old` in code (a CamelCase name not behind `Type::`); in comments within backticks and links (names with _ or two humps: everywhere)."""
    _one(mapping, "", "", globs, exclude, "word", captures=True, quiet=quiet)


def rename_fns(globs, mapping, exclude=(), quiet=True):
    """`fn old`, `old(`, `.old(`, `::old`, `old::<`; not fields, variables or modules."""
    for old, new in mapping.items():
        o = re.escape(old)
        regex = re.compile(rf"(?<=\bfn ){o}\b|(?<![\w'#]){o}\b(?=\s*\(|::<)|(?<=::){o}\b(?!\s*::(?!<)|!|\s*\{{)")
        tree().code(globs, regex, new, exclude, comments=True, plain=True, note=f"fn {old} -> {new} in {globs}")
    if not quiet:
        _check(globs, mapping, exclude)


def rename_methods(globs, mapping, exclude=()):
    """`fn old(`, `.old(`, `::old`: not free calls `old(`."""
    for old, new in mapping.items():
        o = re.escape(old)
        regex = re.compile(rf"(?<=\bfn ){o}\b|(?<=\.){o}\b(?=\s*\(|::<)|(?<=::){o}\b(?!\s*::(?!<)|!|\s*\{{)")
        tree().code(globs, regex, new, exclude, comments=True, plain=True, note=f"method {old} -> {new} in {globs}")


def rename_fields(globs, mapping, exclude=()):
    """`.old` without a call, `old:` (not `::`), and shorthand `{ old, …}`: look at the result of shorthands."""
    for old, new in mapping.items():
        o = re.escape(old)
        regex = re.compile(rf"(?<=\.){o}\b(?!\s*\(|::)|(?<![\w'#:.]){o}\b(?=\s*:(?!:))")
        tree().code(globs, regex, new, exclude, comments=True, plain=True, note=f"field {old} -> {new} in {globs}")


def rename_paths(globs, mapping, exclude=()):
    """Sequences of tokens such as `settle::Leave` or `self.look.head`."""
    for old, new in mapping.items():
        parts = re.split(r"(::|\.)", old)
        regex = re.compile(r"(?<![\w'#])" + "".join(rf"\s*{re.escape(p)}\s*" if p in ("::", ".") else re.escape(p) for p in parts) + r"\b")
        tree().code(globs, regex, new, exclude, comments=True, plain=True, note=f"path {old} -> {new} in {globs}")


def patterns(globs, pairs, exclude=(), comments=True):
    """Regular expressions on code segments (strings and comments are not seen), and on `code` in comments."""
    for regex, replace in pairs:
        tree().code(globs, re.compile(regex, re.S | re.M), replace, exclude, comments=comments, plain=True, note=f"/{regex}/ -> {replace}")


def replace_strings(globs, mapping, exclude=()):
    """Text inside string literals, exactly."""
    t = tree()
    for old, new in mapping.items():
        count = 0
        for name in t.matching(globs, exclude):
            for segment in t.rust[name]:
                if segment[0] == "string" and old in segment[1]:
                    segment[1] = segment[1].replace(old, new)
                    t.dirty.add(name)
                    count += 1
        t.log.append((count, f'string "{old}" -> "{new}"'))


def replace_comments(globs, pairs, exclude=()):
    """Regular expressions on the whole text of comments (line by line)."""
    t = tree()
    for regex, replace in pairs:
        hit, count = re.compile(regex), 0
        for name in t.matching(globs, exclude):
            for segment in t.rust[name]:
                if segment[0] == "comment":
                    new, n = hit.subn(replace, segment[1])
                    if new != segment[1]:
                        segment[1] = new
                        t.dirty.add(name)
                        count += n
        t.log.append((count, f"comment /{regex}/ -> {replace}"))


TEXTS = ["**/*.md", "**/*.toml", "**/*.yml", "**/*.yaml", "**/*.sh", "**/*.py", "**/*.mjs", "**/*.ts", "**/*.js"]


def replace_text(globs, pairs, exclude=()):
    """Regular expressions on text files of any kind but Rust."""
    t = tree()
    for regex, replace in pairs:
        hit, count = re.compile(regex, re.M), 0
        for name in t.matching(globs, exclude, among=[n for n in t.names if not n.endswith(".rs") and os.path.isfile(n)]):
            try:
                new, n = hit.subn(replace, t.text(name))
            except UnicodeDecodeError:
                continue
            if n:
                t.set_text(name, new)
                count += n
        t.log.append((count, f"text /{regex}/ -> {replace}"))


def _module(path):
    """(crate name, [modules]) of a source file."""
    m = re.match(r"(?:crates/([^/]+)/)?(src|tests|benches|examples)/(.*)$", path)
    if not m:
        return None
    parts = re.sub(r"(/mod)?\.rs$", "", m.group(3)).split("/")
    if m.group(2) == "src":
        return (m.group(1) or "bardo").replace("-", "_"), parts
    return parts[0], parts[1:]


def move_module(old, new, globs=None, paths=True):
    """Moves a module's file (and the folder of its children), and renames it wherever it is named by a path.

    `globs`: where paths `old::` may be rewritten (default: whole repository; narrow it where the name is not unique).
    `paths=False`: leaves code but for the `mod` line alone (give the paths with rename_paths then).
    """
    t = tree()
    t.moved[old] = new
    moves = []
    # the folder above may have been moved before
    source = next((n for n in [old, *t._where_now(old)] if n in t.names and n != new), None)
    if source:
        if source != old:
            t.moved[source] = new
        moves.append((source, new))
        old = source
    old_name, new_name = os.path.basename(_dir(old)), os.path.basename(_dir(new))
    if _dir(old) != _dir(new):
        below = [n for n in t.names if n.startswith(_dir(old) + "/") and n != old]
        moves += [(n, _dir(new) + n[len(_dir(old)) :]) for n in below]
    # snapshots carry the module's path in their names
    a, b = _module(old), _module(new)
    if a and b:
        was, now = "__".join([a[0], *a[1]]) + "__", "__".join([b[0], *b[1]]) + "__"
        rest = dict(moves)
        for n in sorted(t.names):
            if n.endswith(".snap") and os.path.basename(n).startswith(was):
                place = os.path.dirname(rest.get(n, n))
                rest[n] = place + "/" + now + os.path.basename(n)[len(was) :]
        moves = list(rest.items())
    for source, target in moves:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        t._rename(source, target)
    t.log.append((len(moves), f"move {old} -> {new}"))
    # where the path is written out: insta's `source:`, strings, documents, comments
    was_path, now_path = re.escape(old), new
    short_old, short_new = "/".join(old.split("/")[-2:]), "/".join(new.split("/")[-2:])
    pairs = [(rf"(?<![\w/]){was_path}(?![\w])", now_path), (rf"(?<![\w]){re.escape(short_old)}(?![\w])", short_new)]
    if _dir(old) != _dir(new):
        pairs.append((rf"(?<![\w/]){re.escape(_dir(old))}/", _dir(new) + "/"))
    replace_text(TEXTS + ["**/*.snap"], pairs)
    for regex, replacement in pairs:
        hit = re.compile(regex)
        for name in list(t.rust):
            for segment in t.rust[name]:
                if segment[0] != "code" and hit.search(segment[1]):
                    segment[1] = hit.sub(replacement, segment[1])
                    t.dirty.add(name)
    if old_name == new_name:
        return
    parent_dir = os.path.dirname(_dir(new))
    parents = [parent_dir + ".rs", parent_dir + "/mod.rs", parent_dir + "/lib.rs", parent_dir + "/main.rs"]
    o = re.escape(old_name)
    t.code(parents, re.compile(rf"(?<=\bmod ){o}\b(?=\s*[;{{])"), new_name, note=f"mod {old_name} -> {new_name}")
    for name in t.matching(parents):  # #[path = "old.rs"]
        for segment in t.rust[name]:
            if segment[0] == "string" and re.fullmatch(rf'"(?:[\w./]*/)?{o}\.rs"', segment[1]):
                segment[1] = re.sub(rf"{o}\.rs", new_name + ".rs", segment[1])
                t.dirty.add(name)
    if not paths:
        return
    parent = os.path.basename(parent_dir)
    top = parent == "src"
    heads = ["crate", "super", "self"] + ([a[0], a[0].split("_")[-1]] if top and a else [parent])
    before = "|".join(rf"(?<=\b{h}::)" for h in heads)
    regex = re.compile(rf"(?<![\w'#.]){o}\b(?=\s*::)|(?:{before}){o}\b(?!\s*\()")
    where = globs or "**"
    # only in the crate itself, and elsewhere behind the crate's or the parent's name
    t.code(where, regex, new_name, comments=True, plain=True, note=f"paths {old_name}:: -> {new_name}::")
    group = re.compile(rf"\buse\s+(?:pub\s+)?(?:\w+\s*::\s*)*?(?:{'|'.join(heads)})\s*::\s*\{{[^;]*;")
    item = re.compile(rf"(?<=[{{,\s]){o}(?=\s*[,}}])")
    t.code(where, group, lambda m: item.sub(new_name, m.group(0)))
    replace_text("**/*.md", [(rf"(?<=\b{re.escape(parent)}::){o}\b", new_name)])


def _rename(self, source, target):
    if os.path.exists(target):
        # left by an interrupted run: the source wins
        os.remove(target)
    tracked = subprocess.run(["git", "ls-files", "--error-unmatch", source], capture_output=True).returncode == 0
    if tracked:
        subprocess.run(["git", "mv", "-f", source, target], check=True)
    else:
        os.rename(source, target)
    self.names.discard(source)
    self.names.add(target)
    for store in (self.rust, self.texts):
        if source in store:
            store[target] = store.pop(source)
    if source in self.dirty:
        self.dirty.discard(source)
        self.dirty.add(target)


Tree._rename = _rename


def keep_written(path, owner, item, written, attribute="serde"):
    """Adds `#[serde(rename = "written")]` to a field or variant `item` of the type `owner`, if it is not there."""
    t = tree()
    for name in t.matching(path):
        text = t.text(name)
        start = re.search(rf"\b(?:struct|enum)\s+{owner}\b", text)
        if not start:
            continue
        end = text.find("\n}", start.end())
        body = text[start.end() : end]
        line = re.search(rf"^([ \t]*)((?:pub(?:\([^)]*\))? )?{item}\b\s*[:,({{\n=])", body, re.M)
        if not line or f'rename = "{written}"' in body[: line.start()][-200:]:
            continue
        body = body[: line.start()] + f'{line.group(1)}#[{attribute}(rename = "{written}")]\n' + body[line.start() :]
        t.set_text(name, text[: start.end()] + body + text[end:])


def keep_type_written(path, owner, written, attribute="schemars"):
    """Adds `#[schemars(rename = "written")]` above the type `owner` (its title in JSON schemas)."""
    t = tree()
    for name in t.matching(path):
        text = t.text(name)
        line = re.search(rf"^([ \t]*)((?:pub(?:\([^)]*\))? )?(?:struct|enum) {owner}\b)", text, re.M)
        if not line or f'#[{attribute}(rename = "{written}")]' in text:
            continue
        t.set_text(name, text[: line.start()] + f'{line.group(1)}#[{attribute}(rename = "{written}")]\n' + text[line.start() :])


def finish(verbose="-v" in sys.argv):
    t = tree()
    for name in sorted(t.dirty):
        with open(name, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(t.text(name))
    total = sum(n for n, _ in t.log)
    for n, note in t.log:
        if verbose or not n and not note.startswith(("text", "comment", "string", "move", "mod ", "paths")):
            print(f"{n:5} {note}")
    print(f"{total} places, {len(t.dirty)} files written")
