//! The sets of characters that the rules of [`crate::pre`] name.

use crate::categories::{L, M, N, P, S, Set};

/// `\p{L}`.
pub(crate) static LETTER: Set = Set::new(L, &[]);
/// `[\p{L}\p{M}]`.
pub(crate) static LETTER_OR_MARK: Set = Set::new(L | M, &[]);
/// `\p{N}`.
pub(crate) static NUMBER: Set = Set::new(N, &[]);
/// `[0-9]`.
pub(crate) static ASCII_DIGIT: Set = Set::new(0, &[('0', '9')]);
/// `[A-Za-z]`.
pub(crate) static ASCII_LETTER: Set = Set::new(0, &[('A', 'Z'), ('a', 'z')]);
/// `\p{P}`.
pub(crate) static PUNCTUATION: Set = Set::new(P, &[]);
/// `[\p{P}\p{S}]`.
pub(crate) static PUNCTUATION_OR_SYMBOL: Set = Set::new(P | S, &[]);
/// All punctuation and symbols of ASCII: ``[!-/:-@\[-`{-~]``.
pub(crate) static ASCII_PUNCTUATION: Set = Set::new(0, ASCII_SYMBOLS);
/// ``[\p{P}!-/:-@\[-`{-~]``.
pub(crate) static ANY_PUNCTUATION: Set = Set::new(P, ASCII_SYMBOLS);
const ASCII_SYMBOLS: &[(char, char)] = &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')];
/// `[\p{P}$+<=>^~|]`.
pub(crate) static MARKS: Set =
    Set::new(P, &[('$', '$'), ('+', '+'), ('<', '>'), ('^', '^'), ('|', '|'), ('~', '~')]);
/// ``[\p{P}$+<=>^~|`]``.
pub(crate) static MARKS_AND_GRAVE: Set = Set::new(
    P,
    &[('$', '$'), ('+', '+'), ('<', '>'), ('^', '^'), ('`', '`'), ('|', '|'), ('~', '~')],
);
/// `[^\s\p{L}\p{N}]`.
pub(crate) static OTHER: Set = Set::white(L | N, &[]).not();
/// `[^\s\p{L}\p{M}\p{N}]`.
pub(crate) static OTHER_BUT_MARK: Set = Set::white(L | M | N, &[]).not();
/// `[^\r\n\p{L}\p{P}\p{S}]`.
pub(crate) static BEFORE_LETTERS: Set = Set::new(L | P | S, &[('\n', '\n'), ('\r', '\r')]).not();
/// A space.
pub(crate) static SPACE: Set = Set::new(0, &[(' ', ' ')]);
/// `\s`.
pub(crate) static WHITE: Set = Set::white(0, &[]);
/// `\S`.
pub(crate) static NOT_WHITE: Set = Set::white(0, &[]).not();
/// `[\r\n]`.
pub(crate) static LINE_BREAK: Set = Set::new(0, &[('\n', '\n'), ('\r', '\r')]);
/// `[\r\n/]`.
pub(crate) static LINE_BREAK_OR_SLASH: Set = Set::new(0, &[('\n', '\n'), ('\r', '\r'), ('/', '/')]);
/// `\n`.
pub(crate) static NEWLINE: Set = Set::new(0, &[('\n', '\n')]);
/// `[^\n]`.
pub(crate) static NOT_NEWLINE: Set = Set::new(0, &[('\n', '\n')]).not();
/// `\p{Han}`.
pub(crate) static HAN: Set = Set::new(0, crate::category_table::HAN);
/// `[A-I]`, the digits of Chameleon's images.
pub(crate) static A_TO_I: Set = Set::new(0, &[('A', 'I')]);

/// `[^(\s|.,!?…。，、।۔،)]`: everything between the signs that end a part of a sentence in BLOOM's languages.
pub(crate) static BLOOM_WORD: Set = Set::white(
    0,
    &[
        ('!', '!'),
        ('(', ')'),
        (',', ','),
        ('.', '.'),
        ('?', '?'),
        ('|', '|'),
        ('\u{60c}', '\u{60c}'),
        ('\u{6d4}', '\u{6d4}'),
        ('\u{964}', '\u{964}'),
        ('\u{2026}', '\u{2026}'),
        ('\u{3001}', '\u{3002}'),
        ('\u{ff0c}', '\u{ff0c}'),
    ],
)
.not();

/// DeepSeek LLM and Coder: `[一-龥ࠀ-一가-퟿]`.
pub(crate) static DEEPSEEK_ASIAN: Set =
    Set::new(0, &[('\u{800}', '\u{9fa5}'), ('\u{ac00}', '\u{d7ff}')]);
/// DeepSeek V3: `[一-龥぀-ゟ゠-ヿ]`.
pub(crate) static DEEPSEEK_CJK: Set =
    Set::new(0, &[('\u{3040}', '\u{30ff}'), ('\u{4e00}', '\u{9fa5}')]);
/// DeepSeek LLM: `[!-/:-~！-／：-～‘-‟　-。]`.
pub(crate) static DEEPSEEK_MARKS: Set = Set::new(
    0,
    &[
        ('!', '/'),
        (':', '~'),
        ('\u{2018}', '\u{201f}'),
        ('\u{3000}', '\u{3002}'),
        ('\u{ff01}', '\u{ff0f}'),
        ('\u{ff1a}', '\u{ff5e}'),
    ],
);
/// Youtu: Korean.
pub(crate) static YOUTU_KOREAN: Set =
    Set::new(0, &[('\u{3131}', '\u{318e}'), ('\u{ac00}', '\u{d7a3}')]);
/// Youtu: `[！…“”‘’—：；，、-〿︰-﹏]`.
pub(crate) static YOUTU_MARKS: Set = Set::new(
    0,
    &[
        ('\u{2014}', '\u{2014}'),
        ('\u{2018}', '\u{2019}'),
        ('\u{201c}', '\u{201d}'),
        ('\u{2026}', '\u{2026}'),
        ('\u{3001}', '\u{303f}'),
        ('\u{fe30}', '\u{fe4f}'),
        ('\u{ff01}', '\u{ff01}'),
        ('\u{ff0c}', '\u{ff0c}'),
        ('\u{ff1a}', '\u{ff1b}'),
    ],
);
/// Youtu: Bopomofo.
pub(crate) static YOUTU_BOPOMOFO: Set = Set::new(0, &[('\u{3105}', '\u{312f}')]);
/// AFMoE: the scripts of Asia that are written without spaces.
pub(crate) static AFMOE_ASIAN: Set = Set::new(
    0,
    &[
        ('\u{e40}', '\u{eff}'),
        ('\u{1000}', '\u{109f}'),
        ('\u{1100}', '\u{11ff}'),
        ('\u{1780}', '\u{17ff}'),
        ('\u{2f00}', '\u{2fdf}'),
        ('\u{3040}', '\u{30ff}'),
        ('\u{3400}', '\u{4dbf}'),
        ('\u{4e00}', '\u{faff}'),
        ('\u{ff65}', '\u{ff9f}'),
    ],
);

/// DeepSeek LLM: the letters of alphabets with case, as they were when its tokenizer was trained.
#[rustfmt::skip]
pub(crate) static DEEPSEEK_LETTERS: Set = Set::new(0, &[
    ('A', 'Z'), ('a', 'z'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'), ('\u{d8}', '\u{f6}'), ('\u{f8}', '\u{1ba}'),
    ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'), ('\u{295}', '\u{2af}'), ('\u{370}', '\u{373}'),
    ('\u{376}', '\u{376}'), ('\u{377}', '\u{377}'), ('\u{37b}', '\u{37d}'), ('\u{37f}', '\u{37f}'),
    ('\u{386}', '\u{386}'), ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'), ('\u{38e}', '\u{3a1}'),
    ('\u{3a3}', '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'), ('\u{531}', '\u{556}'),
    ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'), ('\u{13f8}', '\u{13fd}'), ('\u{1c90}', '\u{1cba}'),
    ('\u{1cbd}', '\u{1cbf}'), ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'), ('\u{1d79}', '\u{1d9a}'),
    ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}', '\u{1f45}'), ('\u{1f48}', '\u{1f4d}'),
    ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'), ('\u{1f5b}', '\u{1f5b}'), ('\u{1f5d}', '\u{1f5d}'),
    ('\u{1f5f}', '\u{1f7d}'), ('\u{1f80}', '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'), ('\u{1fbe}', '\u{1fbe}'),
    ('\u{1fc2}', '\u{1fc4}'), ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'), ('\u{1fd6}', '\u{1fdb}'),
    ('\u{1fe0}', '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'), ('\u{1ff6}', '\u{1ffc}'), ('\u{2102}', '\u{2102}'),
    ('\u{2107}', '\u{2107}'), ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'), ('\u{2119}', '\u{211d}'),
    ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'), ('\u{212a}', '\u{212d}'),
    ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'), ('\u{213c}', '\u{213f}'), ('\u{2145}', '\u{2149}'),
    ('\u{214e}', '\u{214e}'), ('\u{2183}', '\u{2183}'), ('\u{2184}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'),
    ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}', '\u{2cee}'), ('\u{2cf2}', '\u{2cf2}'), ('\u{2cf3}', '\u{2cf3}'),
    ('\u{a640}', '\u{a66d}'), ('\u{a680}', '\u{a69b}'), ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'),
    ('\u{a78b}', '\u{a78e}'), ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'),
    ('\u{ff21}', '\u{ff3a}'), ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'), ('\u{104b0}', '\u{104d3}'),
    ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'), ('\u{10cc0}', '\u{10cf2}'), ('\u{118a0}', '\u{118df}'),
    ('\u{1e900}', '\u{1e943}'),
]);
