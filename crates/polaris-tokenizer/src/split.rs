//! Splitting text into words before they are encoded: rules that match at a position, and stages of rules.
//!
//! Vocabularies were trained on words that regular expressions cut out of the text. Here the few forms that those
//! expressions take are written by hand: a rule needs time in proportion to what it matches, and none backtracks.

use crate::categories::{L, LL, LO, LU, M, N, Set};
use crate::category_table::HAN;
use crate::thousands::{before_thousands, thousands};

/// One step: cuts every piece of the step before into smaller ones.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Each match of the first rule that matches is a piece, and so is the text between two matches.
    Rules(&'static [Rule]),
    /// Groups of three digits, counted from the right: `\d{1,3}(?=(?:\d{3})*\b)`. Without `word_end` the number may be
    /// followed by letters, and all of `\p{N}` are digits.
    Thousands { word_end: bool },
    /// A cut before each group of three digits, counted from the right: `(?=(\d{3})+(?!\d))`.
    BeforeThousands,
}

/// What may stand before a run.
#[derive(Debug)]
pub(crate) enum Lead {
    /// Nothing.
    None,
    /// One character of the set, or nothing.
    Maybe(&'static Set),
    /// One character of the set.
    Must(&'static Set),
}

/// What follows a run.
#[derive(Debug)]
pub(crate) enum Tail {
    /// Nothing.
    None,
    /// As many characters of the set as there are.
    All(&'static Set),
    /// One character of the set, or nothing.
    One(&'static Set),
}

/// What matches at a position.
#[derive(Debug)]
pub(crate) enum Rule {
    /// `'s|'t|'re|'ve|'m|'ll|'d`.
    Contraction { any_case: bool },
    /// `lead set{min,max} tail`.
    Run { lead: Lead, set: &'static Set, min: usize, max: usize, tail: Tail },
    /// A word with at most one change from capitals to small letters, and a contraction behind it:
    /// `[^\r\n\p{L}\p{N}]?` and then `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` or
    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`.
    Cased { contraction: bool, han: bool },
    /// Words with single spaces between them: `[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`.
    Phrase,
    /// `\s*[\r\n]+`.
    LineEnds,
    /// `\s+(?!\S)|\s+`: white space, without the last character if text follows it.
    Spaces,
    /// `\s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`.
    SpacesByPowers,
    /// `\s+$`.
    SpacesAtEnd,
    /// The first of some texts.
    OneOf(&'static [&'static str]),
    /// `open set{1,max} close`, where `close` does not begin with a character of the set.
    Between { open: &'static str, set: &'static Set, max: usize, close: &'static str },
}

/// `[^\r\n\p{L}\p{N}]`.
pub(crate) static BEFORE_WORD: Set = Set::new(L | N, &[('\n', '\n'), ('\r', '\r')]).not();
static CAPITALS: Set = Set::new(LU | LO | M, &[]);
static SMALL: Set = Set::new(LL | LO | M, &[]);
static HAN_SET: Set = Set::new(0, HAN);
static LETTER: Set = Set::new(L, &[]);
static MARK: Set = Set::new(M, &[]);
static WHITE: Set = Set::white(0, &[]);

/// Splits a text by the stages, in order, and hands out the pieces. Joined they are the text; none is empty.
pub(crate) fn split<'t>(stages: &[Stage], text: &'t str, out: &mut dyn FnMut(&'t str)) {
    let Some((stage, rest)) = stages.split_first() else {
        if !text.is_empty() {
            out(text);
        }
        return;
    };
    // The recursion is as deep as there are stages, which are six at most.
    match stage {
        Stage::Rules(rules) => by_rules(rules, text, &mut |piece| split(rest, piece, out)),
        Stage::Thousands { word_end } => {
            thousands(*word_end, text, &mut |piece| split(rest, piece, out));
        }
        Stage::BeforeThousands => {
            before_thousands(text, &mut |piece| split(rest, piece, out));
        }
    }
}

fn by_rules<'t>(rules: &[Rule], text: &'t str, out: &mut dyn FnMut(&'t str)) {
    let mut scan = Scan { text, white: White::default() };
    let (mut at, mut unmatched) = (0, 0);
    while let Some(c) = scan.at(at) {
        match rules.iter().find_map(|rule| scan.matches(rule, at, c)) {
            Some(end) => {
                if unmatched < at {
                    out(&text[unmatched..at]);
                }
                out(&text[at..end]);
                at = end;
                unmatched = end;
            }
            None => at += c.len_utf8(),
        }
    }
    if unmatched < text.len() {
        out(&text[unmatched..]);
    }
}

/// The run of white space that was looked at last, so that rules that take a part of it do not look at it again.
#[derive(Debug, Default, Clone, Copy)]
struct White {
    start: usize,
    end: usize,
    /// Where its last character begins.
    last: usize,
    /// The end of its last line break, or 0.
    line_end: usize,
}

struct Scan<'t> {
    text: &'t str,
    white: White,
}

impl Scan<'_> {
    fn at(&self, at: usize) -> Option<char> {
        match self.text.as_bytes().get(at) {
            Some(byte) if byte.is_ascii() => Some(*byte as char),
            _ => self.text[at..].chars().next(),
        }
    }

    /// The end of the run of a set, of at most `max` characters, and how many they are.
    fn run(&self, set: &Set, mut at: usize, max: usize) -> (usize, usize) {
        let mut count = 0;
        while count < max {
            match self.at(at) {
                Some(c) if set.has(c) => at += c.len_utf8(),
                _ => break,
            }
            count += 1;
        }
        (at, count)
    }

    fn white(&mut self, at: usize) -> White {
        if !(self.white.start <= at && at < self.white.end) {
            let mut white = White { start: at, end: at, last: at, line_end: 0 };
            while let Some(c) = self.at(white.end).filter(|&c| WHITE.has(c)) {
                white.last = white.end;
                white.end += c.len_utf8();
                if matches!(c, '\r' | '\n') {
                    white.line_end = white.end;
                }
            }
            self.white = white;
        }
        self.white
    }

    /// Where the match of a rule ends that begins at `at`, with the character `c`.
    fn matches(&mut self, rule: &Rule, at: usize, c: char) -> Option<usize> {
        let end = match rule {
            Rule::Contraction { any_case } => self.contraction(at, *any_case)?,
            Rule::Run { lead, set, min, max, tail } => {
                let run = |from| Some(self.run(set, from, *max)).filter(|(_, count)| count >= min);
                let after = |set: &Set| set.has(c).then(|| run(at + c.len_utf8())).flatten();
                let (end, _) = match lead {
                    Lead::None => run(at)?,
                    Lead::Maybe(set) => after(set).or_else(|| run(at))?,
                    Lead::Must(set) => after(set)?,
                };
                match tail {
                    Tail::None => end,
                    Tail::All(set) => self.run(set, end, usize::MAX).0,
                    Tail::One(set) => self.run(set, end, 1).0,
                }
            }
            Rule::Cased { contraction, han } => self.cased(at, c, *contraction, *han)?,
            Rule::Phrase => self.phrase(at, c)?,
            Rule::LineEnds => Some(self.white(at).line_end).filter(|&end| end > at)?,
            Rule::Spaces => {
                let white = self.white(at);
                if white.end == self.text.len() || white.last <= at {
                    white.end
                } else {
                    white.last
                }
            }
            Rule::SpacesByPowers => self.spaces_by_powers(at),
            Rule::SpacesAtEnd => Some(self.white(at).end).filter(|&end| end == self.text.len())?,
            Rule::OneOf(texts) => {
                at + texts.iter().find(|text| self.text[at..].starts_with(**text))?.len()
            }
            Rule::Between { open, set, max, close } => {
                let from = self.text[at..].starts_with(open).then_some(at + open.len())?;
                let (end, _) = Some(self.run(set, from, *max)).filter(|(_, count)| *count > 0)?;
                self.text[end..].starts_with(close).then_some(end + close.len())?
            }
        };
        (end > at).then_some(end)
    }

    fn contraction(&self, at: usize, any_case: bool) -> Option<usize> {
        let rest = self.text.as_bytes()[at..].strip_prefix(b"'")?;
        let letter = |place: usize| {
            rest.get(place).map(|&c| if any_case { c.to_ascii_lowercase() } else { c })
        };
        match (letter(0)?, letter(1)) {
            (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
            (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(at + 3),
            _ => None,
        }
    }

    fn cased(&self, at: usize, c: char, contraction: bool, han: bool) -> Option<usize> {
        let has = |set: &Set, c: char| set.has(c) && (han || !HAN_SET.has(c));
        let run = |set: &Set, mut at: usize| {
            while let Some(c) = self.at(at).filter(|&c| has(set, c)) {
                at += c.len_utf8();
            }
            at
        };
        // Capitals and then small letters. Letters without case are both: if no small letter follows, the word ends
        // with the last of them.
        let with_small = |from: usize| {
            let capitals = run(&CAPITALS, from);
            let end = run(&SMALL, capitals);
            if end > capitals {
                return Some(end);
            }
            let word = &self.text[from..capitals];
            let (place, last) = word.char_indices().rev().find(|&(_, c)| has(&SMALL, c))?;
            Some(from + place + last.len_utf8())
        };
        let capitals = |from: usize| Some(run(&CAPITALS, from)).filter(|&end| end > from);
        let after = BEFORE_WORD.has(c).then_some(at + c.len_utf8());
        let end = after
            .and_then(with_small)
            .or_else(|| with_small(at))
            .or_else(|| after.and_then(capitals))
            .or_else(|| capitals(at))?;
        let more = contraction.then(|| self.contraction(end, true)).flatten();
        Some(more.unwrap_or(end))
    }

    fn phrase(&self, at: usize, c: char) -> Option<usize> {
        let word = |from: usize| {
            let letter = self.at(from).filter(|&c| LETTER.has(c))?;
            Some(self.run(&MARK, from + letter.len_utf8(), usize::MAX).0)
        };
        let after = BEFORE_WORD.has(c).then_some(at + c.len_utf8());
        let mut end = after.and_then(word).or_else(|| word(at))?;
        loop {
            let space = (self.at(end) == Some(' ')).then_some(end + 1);
            match word(end).or_else(|| space.and_then(word)) {
                Some(further) => end = further,
                None => return Some(end),
            }
        }
    }

    fn spaces_by_powers(&mut self, at: usize) -> usize {
        let white = self.white(at);
        if white.end <= at {
            return at;
        }
        // Where `count` characters end, if that many are there and no other text follows them directly.
        let taken = |count: usize| {
            let (end, found) = self.run(&WHITE, at, count);
            (found == count && (end < white.end || end == self.text.len())).then_some(end)
        };
        let one = self.run(&WHITE, at, 1).0;
        [512, 256, 128, 64, 32, 16, 8, 4, 2, 1].into_iter().find_map(taken).unwrap_or(one)
    }
}
