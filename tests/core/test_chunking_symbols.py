"""Code is cut at its symbols, and nothing of it is lost."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.chunking.grammars import GRAMMARS
from rag.core.chunking.symbols import CodeChunks, chunk_code
from rag.core.chunking.text import ChunkSizes
from rag.core.types import Passage
from tests.core.code_samples import SAMPLES, Sample

SMALL = ChunkSizes(target=120, overlap=15, window=20)


def assert_lawful(source: str, passages: list[Passage], sizes: ChunkSizes) -> None:
    covered = bytearray(len(source))
    last = (-1, -1)
    for passage in passages:
        assert source[passage.start : passage.end] == passage.content
        assert passage.content.strip()
        assert len(passage.content) <= sizes.target
        assert passage.start > last[0] and passage.end > last[1]
        assert passage.start_line == source.count("\n", 0, passage.start) + 1
        assert passage.end_line == source.count("\n", 0, passage.end - 1) + 1
        assert len(passage.signature) <= 300 and "\n" not in passage.signature
        last = (passage.start, passage.end)
        covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
    lost = [sign for sign, seen in zip(source, covered, strict=True) if sign.isalnum() and not seen]
    assert not lost


def chunks(language: str, source: str, path: str = "sample") -> list[Passage]:
    cut = chunk_code(source, language, path=path)
    assert cut.fallback is None
    assert_lawful(source, cut.passages, ChunkSizes())
    return cut.passages


def one(passages: list[Passage], symbol: str) -> Passage:
    (found,) = [passage for passage in passages if passage.symbol == symbol]
    return found


def sample_chunks(language: str) -> list[Passage]:
    (sample,) = [sample for sample in SAMPLES if sample.language == language]
    return chunks(sample.language, sample.source, sample.path)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.language)
def test_a_program_is_cut_at_its_symbols_with_qualified_names(sample: Sample) -> None:
    found: list[tuple[str, str]] = []
    for passage in chunks(sample.language, sample.source, sample.path):
        name = (passage.symbol_kind, passage.symbol)
        if passage.symbol and name not in found:
            found.append(name)
    assert tuple(found) == sample.symbols


def test_every_language_of_the_specification_has_a_sample() -> None:
    assert {sample.language for sample in SAMPLES} == set(GRAMMARS) - {"starlark"}


def test_comments_and_decorators_above_a_method_belong_to_its_chunk() -> None:
    size = one(sample_chunks("python"), "Reader.size")
    assert size.content.startswith("# How large the file is.\n    @property\n    def size")
    assert size.signature == "def size(self) -> int"
    assert one(sample_chunks("rust"), "Root").content.startswith(
        "/// A root that nothing leaves.\n#[derive(Debug, Clone)]"
    )
    assert one(sample_chunks("csharp"), "Cart.AddAsync").content.startswith("/// <summary>Adds one.</summary>")
    assert one(sample_chunks("sql"), "shop.touch").content.startswith("/* Keeps the time of the last change. */")


def test_the_enclosing_header_is_context_and_not_content() -> None:
    read = one(sample_chunks("python"), "Reader.read")
    assert read.context == "class Reader(Base, Generic[T])"
    assert "Generic" not in read.content
    merge = one(sample_chunks("python"), "Reader.Options.merge")
    assert merge.context == "class Reader(Base, Generic[T])\nclass Options"


def test_the_package_is_context() -> None:
    assert one(sample_chunks("go"), "Cart.Add").context == "package shop"
    price = one(sample_chunks("java"), "Cart.price")
    assert price.context == "package com.shop.cart\npublic class Cart<T extends Item> extends Base implements Priced"
    assert one(sample_chunks("csharp"), "IPriced").context == "namespace Shop.Cart"
    assert one(sample_chunks("php"), "helper").context == "namespace Shop\\Cart"


def test_a_signature_is_the_declaration_on_one_line_without_its_body() -> None:
    assert one(sample_chunks("python"), "Reader.read").signature == "async def read( self, path: str, ) -> bytes"
    assert one(sample_chunks("java"), "Cart.price").signature == "public <R> int price(R rates) throws PriceException"
    assert one(sample_chunks("typescript"), "isEmpty").signature == "export const isEmpty = (list: unknown[]): boolean"
    assert one(sample_chunks("cpp"), "shop.store.Store.Store").signature == "explicit Store(int size)"
    assert one(sample_chunks("go"), "Cart").signature == "type Cart[T any] struct"
    assert one(sample_chunks("bash"), "die").signature == "die()"


def test_a_long_signature_is_cut() -> None:
    parameters = ", ".join(f"parameter_{number}: int" for number in range(60))
    (passage,) = chunks("python", f"def f({parameters}): ...\n")[:1]
    assert len(passage.signature) == 300 and passage.signature.endswith("…")


def test_a_class_keeps_its_header_documentation_and_fields() -> None:
    reader = one(sample_chunks("python"), "Reader")
    assert reader.content == 'class Reader(Base, Generic[T]):\n    """Reads one file."""\n\n    limit: int = 10'
    assert (reader.start_line, reader.end_line) == (5, 8)


def test_what_stands_between_methods_is_another_chunk_of_the_class() -> None:
    field = "    setting_{0} = Field(default='{0}', help='What the setting {0} is good for')\n"
    source = f"class A:\n{field.format(1)}\n    def f(self): ...\n\n{field.format(2)}\n    def g(self): ...\n"
    assert [passage.symbol for passage in chunks("python", source)] == ["A", "A.f", "A", "A.g"]


def test_a_line_between_methods_joins_its_neighbour() -> None:
    source = "class A {\n public:\n  int size() { return 1; }\n\n private:\n  int next() { return 2; }\n};\n"
    passages = chunks("cpp", source)
    assert [passage.symbol for passage in passages] == ["A", "A.size", "A.next"]
    assert passages[2].content.startswith("private:")


def test_lines_that_only_close_something_join_what_they_close() -> None:
    passages = chunks("ruby", "class A\n  def f\n    1\n  end\nend\n")
    assert [passage.content for passage in passages] == ["class A", "def f\n    1\n  end\nend"]


def test_imports_and_statements_are_gathered_into_module_chunks() -> None:
    passages = sample_chunks("python")
    module = [passage for passage in passages if passage.symbol_kind == "module"]
    assert [passage.start_line for passage in module] == [1]
    assert "from dataclasses import dataclass" in module[0].content
    assert (module[0].symbol, module[0].signature, module[0].context) == ("", "", "")


def test_a_comment_across_a_blank_line_is_not_the_functions() -> None:
    source = "import os\n\n# A remark on the whole of it, of some length.\n\ndef f(): ...\n"
    assert [passage.content for passage in chunks("python", source)][-1] == "def f(): ..."


def test_a_documentation_comment_may_stand_a_blank_line_above() -> None:
    assert one(sample_chunks("javascript"), "send").content.startswith("/**\n * Sends an answer.")


def test_a_licence_is_no_documentation() -> None:
    source = "/**\n * Copyright 2024 The Shop, all rights reserved, see LICENSE.\n */\n\nfunction f() {}\n"
    assert one(chunks("javascript", source), "f").content == "function f() {}"


def test_a_comment_behind_a_function_is_its_own() -> None:
    source = "def f(): return 1  # one\ndef g(): return 2\n"
    assert [passage.content for passage in chunks("python", source)] == [
        "def f(): return 1  # one",
        "def g(): return 2",
    ]


def test_a_nested_function_stays_inside_a_short_parent() -> None:
    assert [p.symbol for p in sample_chunks("python") if "inner" in p.content] == ["Reader.read"]


def test_a_nested_function_of_a_long_parent_has_a_chunk_of_its_own() -> None:
    body = "".join(f"        total += weigh({number}, 'something')\n" for number in range(8))
    filler = "".join(f"    step({number}, 'something else again')\n" for number in range(40))
    source = f"def outer():\n    total = 0\n\n    def inner():\n{body}\n{filler}"
    passages = chunks("python", source)
    inner = one(passages, "outer.inner")
    assert inner.content.startswith("def inner()") and inner.context == "def outer()"
    assert {passage.symbol for passage in passages} == {"outer", "outer.inner"}


def test_a_long_function_is_cut_by_size_and_each_piece_keeps_the_symbol() -> None:
    body = "".join(f"    step_{number} = compute({number})\n" for number in range(100))
    passages = chunks("python", f"class A:\n  def long(self):\n{body}")
    pieces = [passage for passage in passages if passage.symbol == "A.long"]
    assert len(pieces) == 3
    assert {(piece.signature, piece.context) for piece in pieces} == {("def long(self)", "class A")}
    assert all(piece.content.splitlines()[-1].endswith(")") for piece in pieces)


def test_overloads_share_a_name() -> None:
    source = "class A {\n  int f(int a) { return a; }\n  int f(long a) { return 1; }\n}\n"
    assert [passage.symbol for passage in chunks("java", source)] == ["A", "A.f", "A.f"]


def test_functions_in_an_anonymous_wrapper_are_found() -> None:
    functions = "".join(f"  function part{number}() {{ return {number}; }}\n" for number in range(40))
    symbols = {passage.symbol for passage in chunks("javascript", f"(function () {{\n{functions}}})();\n")}
    assert {"part0", "part39"} <= symbols


def test_conditional_compilation_does_not_hide_what_it_tears_apart() -> None:
    source = (
        "int open_it(int mode) {\n#ifdef WINDOWS\n  if (mode == 1) {\n#else\n  if (mode == 2) {\n#endif\n"
        "    return 1;\n  }\n  return 0;\n}\n\nint close_it(void) { return 0; }\n"
    )
    assert [passage.symbol for passage in chunks("c", source)] == ["open_it", "close_it"]


def test_a_header_with_classes_is_read_as_cpp() -> None:
    source = "namespace a {\nclass B {\n  int f() { return 1; }\n};\n}\n"
    assert "a.B.f" in {passage.symbol for passage in chunks("c", source, path="include/b.h")}


@pytest.mark.parametrize(
    ("source", "symbols"),
    [
        ("DELIMITER $$\nCREATE PROCEDURE `a`()\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND $$\nDELIMITER ;\n", ["a"]),
        (
            "CREATE PROCEDURE [dbo].[a] @Id INT\nAS\nBEGIN\n  SELECT 1;\nEND\nGO\nCREATE TABLE [b] ([Id] [int])\nGO\n",
            ["dbo.a", "b"],
        ),
        (
            "create or replace function a return number is\n  x number;\nbegin\n  return 1;\nend;\n/\n"
            "create view b as select 1 from dual;\n",
            ["a", "b"],
        ),
        (
            "CREATE TABLE a (x text DEFAULT ';');\nCREATE FUNCTION b() AS $x$ a; CREATE c; $x$ LANGUAGE odd;\n",
            ["a", "b"],
        ),
    ],
    ids=["mysql", "sqlserver", "oracle", "postgresql"],
)
def test_dialects_of_sql_are_cut_at_their_statements(source: str, symbols: list[str]) -> None:
    assert [passage.symbol for passage in chunks("sql", source) if passage.symbol] == symbols


def test_a_broken_file_still_gives_the_symbols_that_can_be_read() -> None:
    source = "def good():\n    return 1\n\nclass Broken(:\n    def ( = 3\n\ndef also_good():\n    return 2\n"
    assert {"good", "also_good"} <= {passage.symbol for passage in chunk_code(source, "python", path="a.py").passages}


@pytest.mark.parametrize(
    ("language", "source", "reason"),
    [
        ("kotlin", "fun main() {}\n", "no grammar for kotlin"),
        ("java", "%% nothing of this is Java %%\n" * 5, "syntax errors, no symbol found"),
        ("c", "(" * 5_000 + "x", "brackets nest too deeply"),
        ("cpp", "a<" * 20_000, "parsing takes too long"),
    ],
)
def test_a_fallback_to_size_says_why(language: str, source: str, reason: str) -> None:
    cut = chunk_code(source, language, SMALL, path="a")
    assert cut.fallback == reason
    assert {passage.symbol_kind for passage in cut.passages} == {"module"}
    assert_lawful(source, cut.passages, SMALL)


@pytest.mark.parametrize("source", ["", " \n\t\n", "\ufeff"])
@pytest.mark.parametrize("language", ["python", "kotlin"])
def test_a_blank_file_gives_no_chunk_and_no_fallback(language: str, source: str) -> None:
    assert chunk_code(source, language, path="a") == CodeChunks([], None)


def test_a_script_without_symbols_is_no_fallback() -> None:
    assert chunk_code("import os\nprint(os.sep)\n", "python", path="a.py").fallback is None


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_offsets_are_code_points_and_lines_end_at_newlines_alone(ending: str) -> None:
    source = "\ufeff# Привет \u2028 👩‍👩‍👧\x0c\0\ndef ж():\n    return 'é\ud800'\n\ndef g(): ...\n".replace(
        "\n", ending
    )
    passages = chunks("python", source)
    assert [(p.symbol, p.start_line, p.end_line) for p in passages] == [("ж", 1, 3), ("g", 5, 5)]


def test_hundreds_of_nested_classes_do_no_harm() -> None:
    source = "".join(f"class A{depth} {{\n" for depth in range(800)) + "}" * 800
    assert_lawful(source, chunk_code(source, "java", path="A.java").passages, ChunkSizes())


def test_many_threads_may_cut_at_once() -> None:
    results: dict[int, CodeChunks] = {}
    (sample,) = [sample for sample in SAMPLES if sample.language == "go"]

    def cut(number: int) -> None:
        results[number] = chunk_code(sample.source * 20, "go", path="a.go")

    threads = [threading.Thread(target=cut, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == results[0] for result in results.values())


LANGUAGES = st.sampled_from([*GRAMMARS, "kotlin"])
PIECES = st.sampled_from(
    [piece for sample in SAMPLES for piece in sample.source.split("\n\n")]
    + [
        "{",
        "}",
        "(",
        ")",
        '"',
        "'",
        "/*",
        "*/",
        "//",
        "#if 0\n",
        "#endif\n",
        "$$",
        "\0",
        "\ud800",
        "é",
        "👩‍👩‍👧",
        "\r",
        "\\",
    ]
)


@settings(max_examples=150, deadline=None)
@given(source=st.text(), language=LANGUAGES)
def test_the_laws_hold_for_arbitrary_text(source: str, language: str) -> None:
    cut = chunk_code(source, language, SMALL, path="a.h")
    assert_lawful(source, cut.passages, SMALL)
    assert chunk_code(source, language, SMALL, path="a.h") == cut


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=12), glue=st.sampled_from(["", "\n", "\n\n", "\r\n"]), language=LANGUAGES)
def test_the_laws_hold_for_torn_and_mixed_programs(pieces: list[str], glue: str, language: str) -> None:
    source = glue.join(pieces)
    cut = chunk_code(source, language, SMALL, path="a.h")
    assert_lawful(source, cut.passages, SMALL)
    assert chunk_code(source, language, SMALL, path="a.h") == cut


@settings(max_examples=60, deadline=None)
@given(sample=st.sampled_from(SAMPLES), data=st.data())
def test_a_program_with_a_part_missing_keeps_the_laws(sample: Sample, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sample.source)))
    end = data.draw(st.integers(start, len(sample.source)))
    source = sample.source[:start] + sample.source[end:]
    assert_lawful(source, chunk_code(source, sample.language, SMALL, path="a").passages, SMALL)
