"""Renames types by resolving names, so that two types of one name can be renamed apart.

    rename_types("crates/x/src/a.rs", {"Old": "New"})   # where the file defines (or has defined) the type
    apply_types()                                        # once, after all calls of rename_types and of move_module

A small resolver: modules, `use` trees (aliases, globs, re-exports), paths, inline modules. Fields, variants, associated types and
names that merely look alike stay. Idempotent: a type that has its new name already is still found under the old one where a merge
brought an old use.
"""
import os
import re
import subprocess

import lib
from lib import tree

ITEM = re.compile(r"\b(struct|enum|union|trait|type)\s+([A-Za-z_]\w*)")
IDENT = re.compile(r"[A-Za-z_]\w*")
_wanted = []
EXTERNAL = ("bardo_base", "bardo_safety", "bardo_session")


def rename_types(path, mapping):
    for old, new in mapping.items():
        _wanted.append((path, old, new))


def mask(name):
    """The file's text with comments and strings blanked."""
    out = []
    for kind, text in tree().rust[name]:
        out.append(text if kind == "code" else re.sub(r"[^\n]", " ", text))
    return "".join(out)


class Module:
    __slots__ = ("path", "file", "start", "end", "holes", "items", "uses", "globs", "use_spans", "leaves", "variants", "nested")

    def __init__(self, path, file, start, end):
        self.path, self.file, self.start, self.end = path, file, start, end
        self.holes, self.items, self.uses, self.globs, self.use_spans, self.leaves = [], {}, {}, [], [], []
        self.variants, self.nested = set(), set()


def close(text, at):
    """Position behind the bracket that closes the one at `at`."""
    depth = 0
    for m in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if m.group() == "{" else -1
        if not depth:
            return m.end()
    return len(text)


class World:
    def __init__(self):
        self.modules = {}
        self.text = {n: mask(n) for n in tree().rust}
        self.roots = {}
        for n in sorted(tree().rust):
            m = re.fullmatch(r"crates/([^/]+)/src/lib\.rs", n)
            if m:
                self.roots[m.group(1).replace("-", "_")] = n
        if "src/lib.rs" in tree().rust:
            self.roots["bardo"] = "src/lib.rs"
        if "src/main.rs" in tree().rust:
            self.roots["bardo#main"] = "src/main.rs"
        for n in sorted(tree().rust):
            if re.fullmatch(r"(tests|tests/compile_fail|benches|examples|fuzz)/[^/]+\.rs", n) or re.fullmatch(r"(tests|benches|examples)/[^/]+/main\.rs", n) or re.fullmatch(r"fuzz/\w+/[^/]+\.rs", n):
                self.roots["#" + n] = n
        for crate, file in self.roots.items():
            self.load((crate,), file, os.path.dirname(file))
        self.by_file = {}
        for module in self.modules.values():
            self.by_file.setdefault(module.file, []).append(module)

    def load(self, path, file, folder):
        if file not in self.text or path in self.modules:
            return
        self.scan(path, file, 0, len(self.text[file]), folder)

    def scan(self, path, file, start, end, folder):
        text = self.text[file]
        module = Module(path, file, start, end)
        self.modules[path] = module
        for m in re.compile(r"\bmod\s+(?:r#)?([a-z_]\w*)\s*([;{])").finditer(text, start, end):
            if any(a <= m.start() < b for a, b in module.holes):
                continue
            name = m.group(1)
            if m.group(2) == "{":
                stop = close(text, m.end() - 1)
                module.holes.append((m.start(), stop))
                self.scan((*path, name), file, m.end(), stop - 1, folder + "/" + name)
            else:
                raw = tree().text(file)
                attribute = re.search(r'#\[path\s*=\s*"([^"]+)"\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?$', raw[max(0, m.start() - 300) : m.start()])
                if attribute:
                    child = os.path.normpath(os.path.join(os.path.dirname(file), attribute.group(1)))
                    self.load((*path, name), child, os.path.dirname(child) if os.path.basename(child) == "mod.rs" else child[:-3])
                else:
                    a, b = f"{folder}/{name}.rs", f"{folder}/{name}/mod.rs"
                    child = a if a in self.text else b
                    self.load((*path, name), child, f"{folder}/{name}")
        for m in ITEM.finditer(text, start, end):
            if self.inside(module, m.start()):
                depth = text.count("{", start, m.start()) - text.count("}", start, m.start())
                for a, b in module.holes:
                    pass
                if depth == 0 or m.group(1) in ("struct", "enum", "union", "trait"):
                    module.items[m.group(2)] = m.start(2)
                else:
                    line = text.rfind("\n", 0, m.start())
                    if re.match(r"\s+(?:pub )?type\b", text[line + 1 : m.end()]):
                        module.nested.add(m.start(2))
                if m.group(1) == "enum":
                    brace = re.compile(r"[{;]").search(text, m.end())
                    if brace and brace.group() == "{":
                        self.enum(module, text, brace.start(), close(text, brace.start()))
        for m in re.compile(r"\buse\s+([^;]+);").finditer(text, start, end):
            if self.inside(module, m.start()):
                module.use_spans.append((m.start(), m.end()))
                self.use(module, text, m.start(1), m.end(1), ())

    @staticmethod
    def inside(module, at):
        return not any(a <= at < b for a, b in module.holes)

    @staticmethod
    def enum(module, text, start, end):
        depth, fresh, i = 0, False, start
        while i < end:
            c = text[i]
            if c in "{([<":
                depth += 1
                fresh = depth == 1
                if c == "[" and depth == 2:
                    stop, level = i, 0
                    while stop < end:
                        level += {"[": 1, "]": -1}.get(text[stop], 0)
                        stop += 1
                        if not level:
                            break
                    i, depth, fresh = stop, depth - 1, True
                    continue
            elif c in "})]" or (c == ">" and text[i - 1] not in "-="):
                depth -= 1
            elif c == "," and depth == 1:
                fresh = True
            elif depth == 1 and fresh and (c.isalpha() or c == "_"):
                word = IDENT.match(text, i)
                module.variants.add(i)
                fresh, i = False, word.end()
                continue
            i += 1

    def use(self, module, text, start, end, prefix):
        """One use tree between the positions."""
        i, path = start, list(prefix)
        if text[start:end].lstrip().startswith("::"):
            path.append("::")
        last = None
        while i < end:
            c = text[i]
            if c == "{":
                stop = close(text, i) - 1
                depth, begin = 0, i + 1
                for j in range(i + 1, stop + 1):
                    if j == stop or (text[j] == "," and depth == 0):
                        if text[begin:j].strip():
                            self.use(module, text, begin, j, tuple(path))
                        begin = j + 1
                    elif text[j] == "{":
                        depth += 1
                    elif text[j] == "}":
                        depth -= 1
                return
            if c == "*":
                module.globs.append(tuple(path))
                return
            word = IDENT.match(text, i)
            if word:
                if word.group() == "as":
                    alias = IDENT.search(text, word.end(), end) or re.compile("_").search(text, word.end(), end)
                    self.leaf(module, path, last, alias.group(), (alias.start(), alias.end()))
                    return
                path.append(word.group())
                last = (word.start(), word.end())
                i = word.end()
                continue
            i += 1
        if path and last:
            if path[-1] == "self":
                path.pop()
            self.leaf(module, path, last, path[-1] if path else "self", None)

    @staticmethod
    def leaf(module, path, span, local, alias):
        if local != "_":
            module.uses.setdefault(local, []).append(tuple(path))
        module.leaves.append((tuple(path), span, local, alias))

    # -- resolution -------------------------------------------------------------------------------------------------
    def lookup(self, path, name, seen=None):
        """The definition `(module, name)` or the module that a name in a module means."""
        seen = seen if seen is not None else set()
        if (path, name) in seen:
            return None
        seen.add((path, name))
        module = self.modules.get(path)
        if module is None:
            return None
        if name in module.items:
            return (path, name)
        if (*path, name) in self.modules:
            return (*path, name)
        for target in module.uses.get(name, ()):
            if found := self.resolve(path, target, seen):
                return found
        if name in module.uses:
            return None
        for target in module.globs:
            place = self.resolve(path, target, seen)
            if place and isinstance(place[0], str):
                if found := self.lookup(place, name, seen):
                    return found
        return None

    def resolve(self, path, target, seen=None, old=None, new=None, goal=None):
        """What a path means in a module."""
        if not target:
            return None
        head, rest = target[0], target[1:]
        if head == "::":
            place, rest = (rest[:1] if rest[:1] and rest[0] in self.roots else None), rest[1:]
        elif head == "crate":
            place = path[:1]
        elif head == "self":
            place = path
        elif head == "super":
            place = path[:-1]
            while rest and rest[0] == "super":
                place, rest = place[:-1], rest[1:]
        else:
            module = self.modules.get(path)
            own = (*path, head) in self.modules or (module and (head in module.uses or head in module.items))
            if head in self.roots and (not own or head in EXTERNAL):
                place = (head,)
            else:
                place = self.lookup(path, head, set(seen or ()))
                if place is None and head in self.roots:
                    place = (head,)
        for i, part in enumerate(rest):
            if place is None or not place or not isinstance(place[0], str):
                return None
            place = self.lookup(place, part, seen if seen is not None else set())
        return place


def apply_types():
    t = tree()
    world = World()
    goals = []
    for path, old, new in _wanted:
        file = next((n for n in [path, *t._where_now(path)] if n in world.by_file), None)
        if not file:
            t.log.append((0, f"type {old} -> {new}: no file {path}"))
            continue
        module = next((m for m in world.by_file[file] if old in m.items), None)
        fresh = next((m for m in world.by_file[file] if new in m.items), None)
        if module and fresh:
            print(f"COLLISION {path}: {old} -> {new}, which is there already")
            continue
        if not module and not fresh:
            t.log.append((0, f"type {old} -> {new}: neither in {file}"))
            continue
        goals.append((module or fresh, old, new))
    index = {}
    for file in world.text:
        for one in set(IDENT.findall(t.text(file))):
            index.setdefault(one, []).append(file)
    last = {}
    for m in world.modules.values():
        for leaf in m.leaves:
            if leaf[0]:
                last.setdefault(leaf[0][-1], []).append((m, leaf))
    # aliases so that old uses of renamed types resolve
    edits = {}  # file -> {(start, end): new text}
    for module, old, new in goals:
        gone = old not in module.items
        targets = [m for m in world.by_file[module.file] if (new if gone else old) in m.items and m.start <= module.start]
        ids = {(m.path, new if gone else old) for m in targets}
        count = 0
        if gone:
            # give the old name to every module that has the new one
            for m, leaf in last.get(new, ()):
                if leaf[2] == new and world.resolve(m.path, leaf[0]) in ids:
                    m.uses.setdefault(old, []).append(leaf[0])
            for m in targets:
                m.items[old] = -1
            ids |= {(m.path, old) for m in targets}
        word = re.compile(rf"(?<![\w'#]){re.escape(old)}(?!\w)")
        for file in index.get(old, ()):
            text, raw = world.text[file], t.text(file)
            for m in world.by_file.get(file, ()):
                local = world.lookup(m.path, old) in ids
                if local and (other := world.lookup(m.path, new)) and other not in ids and isinstance(other[0], tuple):
                    if word.search(text, m.start, m.end):
                        print(f"COLLISION {old} -> {new} in {file}: {other}")
                leaves = {}
                for path, span, name, alias in m.leaves:
                    leaves[span] = (path, name, alias)
                for hit in word.finditer(raw, m.start, m.end):
                    at = hit.start()
                    if not world.inside(m, at):
                        continue
                    code = text[at : hit.end()] == old
                    if code:
                        span = (at, hit.end())
                        if span in leaves:
                            path, name, alias = leaves[span]
                            if world.resolve(m.path, path) in ids:
                                edits.setdefault(file, {})[span] = new
                                if alias and name == new:
                                    edits[file][(hit.end(), alias[1])] = ""
                                count += 1
                            continue
                        if any(a <= at < b for a, b in m.use_spans):
                            # an alias, or a segment of an import of a variant
                            use_path = _use_prefix(text, m, at)
                            if use_path is not None and world.resolve(m.path, (*use_path, old)) in ids:
                                edits.setdefault(file, {})[span] = new
                                count += 1
                            continue
                        if at in m.variants or at in m.nested:
                            continue
                        before = text[max(0, at - 300) : at]
                        if re.search(r"[<,]\s*$", before) and re.match(r"\s*=(?!=)", text[hit.end() :]):
                            continue  # an associated type
                        head = re.search(r"((?:\w+\s*::\s*)+)$", before)
                        if head:
                            parts = tuple(re.findall(r"\w+", head.group(1)))
                            if world.resolve(m.path, (*parts, old)) in ids:
                                edits.setdefault(file, {})[span] = new
                                count += 1
                        elif re.search(r"::\s*$", before):
                            continue
                        elif local and not re.search(r"(?<![.])\.\s*$", before):
                            edits.setdefault(file, {})[span] = new
                            count += 1
                    elif local and raw[at - 1] == '"' and re.search(r'\b(try_from|from|into|remote)\s*=\s*"$', raw[max(0, at - 30) : at]):
                        edits.setdefault(file, {})[(at, hit.end())] = new
                    else:
                        if not _in_ticks(raw, at):
                            continue
                        before = raw[max(0, at - 300) : at]
                        head = re.search(r"((?:\w+::)+)$", before)
                        parts = tuple(re.findall(r"\w+", head.group(1))) if head else ()
                        means = world.resolve(m.path, (*parts, old)) if parts else (world.lookup(m.path, old))
                        if means in ids:
                            edits.setdefault(file, {})[(at, hit.end())] = new
                            count += 1
        t.log.append((count, f"type {old} -> {new} of {module.file}"))
    for file, spans in edits.items():
        text, last, out = t.text(file), 0, []
        for (a, b), new in sorted(spans.items()):
            if a < last:
                continue
            out += [text[last:a], new]
            last = b
        t.set_text(file, "".join(out) + text[last:])


def _in_ticks(raw, at):
    """Within `code` or a link of a comment line."""
    line = raw.rfind("\n", 0, at) + 1
    comment = raw.find("//", line, at)
    if comment < 0:
        return False
    if raw.count("`", comment, at) % 2 == 1:
        return True
    return raw[at - 1] == "[" and "]" in raw[at : raw.find("\n", at)]


def _use_prefix(text, module, at):
    """The path before a segment that is inside a use declaration and no leaf (`use a::Old::{…}`)."""
    end = IDENT.match(text, at).end()
    if not re.match(r"\s*::", text[end:]):
        return None
    start = next(a for a, b in module.use_spans if a <= at < b)
    body = text[start + 3 : at]
    # fold closed groups away, then keep what leads here
    parts, stack = [], []
    for token in re.findall(r"\w+|::|[{},]", body):
        if token == "{":
            stack.append(list(parts))
        elif token == "}":
            parts = stack.pop() if stack else []
        elif token == ",":
            parts = list(stack[-1]) if stack else []
        elif token != "::":
            parts.append(token)
    return tuple(parts)
