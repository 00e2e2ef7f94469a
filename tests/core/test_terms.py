"""What a text is found by."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.accents import folded_variants, normalise, unaccent
from rag.core.chains import MAX_TOKEN_CHARS, cut_token, find_chains, part_spans
from rag.core.terms import ACCENT_SENSITIVE, analyse, chunk_terms, count_words, index_terms, phrase_terms
from rag.core.types import Scope

#: Text as people write it, with the letters, joints and marks that trip an analyser.
texts = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("aZ09_-./:,#+éйñßİ部가\u0301\u00ad ²")), max_size=200
)

moderate = settings(max_examples=80, deadline=None)


def words(text: str) -> list[str]:
    return list(analyse(text).words)


def terms(text: str, language: str = "english") -> set[str]:
    return set(index_terms(text, language=language).split())


@pytest.mark.parametrize("spelling", ["runGit", "run_git", "run-git", "RunGit", "RUN_GIT", "__run_git__", "run‐git"])
def test_every_spelling_of_an_identifier_has_the_same_terms(spelling: str) -> None:
    assert terms(spelling) == {"run", "git", "rungit"}


def test_parts_come_in_text_order_and_wholes_after_them() -> None:
    assert index_terms("call safeJoin on run_git", language="simple") == "call safe join on run git\nsafejoin rungit"


def test_plain_words_are_not_doubled() -> None:
    assert index_terms("where is the Path", language="english") == "where is the path"


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("HTTPServer", ["http", "server"]),
        ("parseURL2", ["parse", "url2"]),
        ("utf8Decode", ["utf8", "decode"]),
        ("SHA256Sum", ["sha256", "sum"]),
        ("x86_64", ["x86", "64"]),
        ("APIs", ["apis"]),
        ("iOS", ["i", "os"]),
        ("ЗагрузитьФайл", ["загрузить", "файл"]),
        ("PDFка", ["pdf", "ка"]),
        ("std::vector<String>", ["std", "vector", "string"]),
    ],
)
def test_identifiers_are_divided_where_a_reader_divides_them(identifier: str, parts: list[str]) -> None:
    assert words(identifier) == parts


def test_an_acronym_with_a_split_inside_is_still_found_whole() -> None:
    assert {"ipv6", "github"} <= terms("IPv6 GitHub")


def test_a_path_is_found_by_its_directories_its_file_name_and_its_stem() -> None:
    found = terms("see src/app/models.py for it")
    for query in ("models.py", "models", "app/models.py", "src/app/models.py"):
        assert terms(query) <= found, query


def test_neighbours_in_a_dotted_chain_make_a_whole() -> None:
    assert analyse("self.repo.runGit(x)").wholes == ("rungit", "selfrepo", "reporungit")


@pytest.mark.parametrize(
    ("number", "whole"),
    [("5,120", "5120"), ("1.2.3", "123"), ("v1.2.3", "v123"), ("2024-01-15", "20240115"), ("U.S.A", "usa")],
)
def test_numbers_versions_and_acronyms_have_one_whole(number: str, whole: str) -> None:
    assert analyse(number).wholes == (whole,)


def test_a_sentence_end_joins_nothing() -> None:
    assert analyse("It ends. Another begins, and 5, 6.").wholes == ()


def test_languages_named_with_signs_are_told_apart() -> None:
    assert {"cpp", "csharp"} <= terms("C++ and C# code")
    assert "cpp" not in terms("plain C code")


def test_a_command_line_keeps_its_flags_as_words() -> None:
    assert words("git log -p --no-verify") == ["git", "log", "p", "no", "verify"]


def test_composed_and_decomposed_text_is_the_same() -> None:
    text = "Café Résumé naïve 가각 й"
    assert analyse(unicodedata.normalize("NFC", text)) == analyse(unicodedata.normalize("NFD", text))


def test_compatibility_forms_are_the_same_letters() -> None:
    assert words("ﬁle ＡＰＩ") == ["file", "api"]


def test_a_superscript_is_no_part_of_its_word() -> None:
    assert words("km² word¹") == ["km", "2", "word", "1"]


def test_stress_marks_disappear_and_letters_with_marks_stay() -> None:
    assert words("Вене́ра йод ёлка") == ["венера", "йод", "ёлка"]


def test_vowel_signs_stay_in_their_words() -> None:
    assert words("हिन्दी में") == ["हिन्दी", "में"]
    assert words("مُحَمَّد") == [unicodedata.normalize("NFKC", "مُحَمَّد")]


def test_soft_hyphens_and_joiners_are_no_boundaries() -> None:
    assert words("co\u00adoper\u200date می\u200cخواهم") == ["cooperate", "میخواهم"]


def test_a_word_inside_a_sentence_without_spaces_is_found() -> None:
    for sentence, word in (
        ("部署方案使用", "方案"),
        ("データベースを使う", "ベース"),
        ("데이터베이스를", "베이스"),
        ("ภาษาไทย", "ไทย"),
    ):
        assert terms(word) <= terms(sentence) | set(analyse(word).characters), word
        assert set(words(word)) <= terms(sentence), word


def test_a_single_character_is_found_inside_a_sentence() -> None:
    assert set(words("猫")) <= terms("猫が好き")


def test_both_parts_of_a_mixed_text_count() -> None:
    assert words("go 部署 deployment") == ["go", "部署", "deployment"]
    assert words("как настроить HNSW索引") == ["как", "настроить", "hnsw", "索引"]


def test_a_name_with_look_alikes_is_found_by_its_latin_spelling() -> None:
    disguised = "p\u0430yload_size"
    assert set(analyse("payload_size").wholes) <= terms(disguised)


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("autenticação", "autenticacao"),
        ("ñandú", "nandu"),
        ("Straße", "Strasse"),
        ("łódź", "lodz"),
        ("øre", "ore"),
        ("đặng", "dang"),
        ("ёлка", "елка"),
        ("йод", "йод"),
        ("їжак", "їжак"),
        ("Ёж", "Еж"),
        ("ὁδός", "οδος"),
        ("שָׁלוֹם", "שלום"),
        ("plain", "plain"),
    ],
)
def test_unaccent_takes_accents_off_and_leaves_letters(word: str, plain: str) -> None:
    assert unaccent(word) == plain


def test_unaccent_does_not_mind_the_unicode_form() -> None:
    for word in ("ação", "йод", "ёлка"):
        assert unaccent(unicodedata.normalize("NFD", word)) == unaccent(word)


def test_folded_variants_are_given_once_and_only_where_they_differ() -> None:
    assert folded_variants(["ação", "plain", "ação", "à"]) == ["acao", "a"]


def test_languages_whose_stemmer_needs_accents_have_both_forms() -> None:
    assert "portuguese" in ACCENT_SENSITIVE
    assert {"atracação", "atracacao"} <= terms("atracação", "portuguese")
    assert "atracacao" not in terms("atracação", "english")


def test_an_endless_token_is_cut_the_same_on_both_sides() -> None:
    endless = "a" * 10_000
    assert words(f"alpha {endless} omega") == ["alpha", "a" * MAX_TOKEN_CHARS, "omega"]
    assert words(endless) == ["a" * MAX_TOKEN_CHARS]


def test_a_token_that_dropping_accents_would_double_is_cut_before() -> None:
    assert all(len(term) <= MAX_TOKEN_CHARS for term in terms("ß" * 10_000, "german"))


def test_a_modifier_letter_apostrophe_is_an_apostrophe() -> None:
    assert words("пам\u02bcять") == words("пам'ять") == ["пам", "ять"]


def test_phrase_terms_are_the_words_alone() -> None:
    assert phrase_terms("run_git, quickly!") == "run git quickly"
    assert phrase_terms("?!") == ""


def test_a_chunks_terms_stand_in_three_weights() -> None:
    a, b, d = chunk_terms(
        scope=Scope.DOCS,
        language="english",
        content="Use safeJoin.",
        title="Path safety",
        heading_path=("Guide", "Joining paths"),
        path="docs/guide.md",
    )
    assert a == "path safety"
    assert b == "guide joining paths docs guide md\nguidemd"
    assert d == "use safe join\nsafejoin"
    assert count_words(a, b, d) == 2 + 6 + 3


def test_a_code_chunk_is_called_by_its_symbol_and_its_files_stem() -> None:
    a, b, _ = chunk_terms(
        scope=Scope.CODE,
        language="simple",
        content="…",
        path="app/path_guard.go",
        symbol="Guard.safeJoin",
        signature="func (g Guard) safeJoin(root string)",
        context="type Guard struct",
    )
    assert a.split() == ["guard", "safe", "join", "path", "guard", "safejoin", "guardsafejoin", "pathguard"]
    assert {"root", "struct", "app", "go"} <= set(b.split())


@moderate
@given(texts)
def test_terms_are_letters_digits_and_marks_in_lower_case(text: str) -> None:
    for term in index_terms(text, language="portuguese").split():
        assert len(term) <= MAX_TOKEN_CHARS
        assert term[0].isalnum()
        assert all(char.isalnum() or unicodedata.category(char) in ("Mn", "Mc") for char in term), term
        assert term == term.lower()


@moderate
@given(texts)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@moderate
@given(texts)
def test_the_unicode_form_never_matters(text: str) -> None:
    assert terms(unicodedata.normalize("NFC", text)) == terms(unicodedata.normalize("NFD", text))


@moderate
@given(texts)
def test_the_words_are_the_parts_where_they_stand(text: str) -> None:
    normalised = normalise(text)
    parts = []
    for offset, chain in find_chains(normalised):
        for start, end in part_spans(chain):
            assert 0 <= start < end <= len(chain)
            parts.append(normalised[offset + start : offset + end].lower())
    assert tuple(cut_token(part) for part in parts) == analyse(text).words


@moderate
@given(st.lists(texts, max_size=4))
def test_a_line_break_between_texts_joins_nothing(parts: list[str]) -> None:
    together = analyse("\n".join(parts))
    assert list(together.words) == [word for part in parts for word in analyse(part).words]


@moderate
@given(texts, st.data())
def test_a_question_copied_from_a_text_finds_it(text: str, data: st.DataObject) -> None:
    pieces = text.split()
    first = data.draw(st.integers(0, len(pieces)))
    copied = analyse(" ".join(pieces[first : data.draw(st.integers(first, len(pieces)))]))
    assert {*copied.words, *copied.wholes} <= terms(text)


@pytest.mark.parametrize(
    "hostile", ["a\u0301\u0316", "A", "aB", "a.", "a_", "1,", "_", "部", "\u0301", "aа", "c++ ", "-a"]
)
def test_hostile_text_is_analysed_in_time(hostile: str) -> None:
    started = time.process_time()
    analyse(hostile * 20_000)
    assert time.process_time() - started < 3
