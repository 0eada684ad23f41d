//! TfIdfVectorizer: how often groups of tokens occur.

use std::collections::HashMap;

use crate::limits::checked_elements;
use crate::operators::shape::length;
use crate::operators::{Call, one};
use crate::room::filled;
use crate::{Attributes, ElementType, Error, Result, Tensor, Value};

/// Tokens of both kinds.
#[derive(PartialEq, Eq, Hash)]
enum Token {
    Integer(i128),
    Text(String),
}

/// The known groups of tokens as a tree: each step takes one more token.
#[derive(Default)]
struct Groups {
    steps: HashMap<(usize, usize), usize>,
    /// The number of the group that ends at each node of the tree.
    ends: Vec<Option<usize>>,
}

impl Groups {
    fn add(&mut self, tokens: &[usize], number: usize) {
        let mut node = 0;
        for &token in tokens {
            let next = self.ends.len();
            node = *self.steps.entry((node, token)).or_insert(next);
            if node == next {
                self.ends.push(None);
            }
        }
        self.ends[node] = Some(number);
    }
}

/// How groups are looked for.
struct Search {
    groups: Groups,
    shortest: usize,
    longest: usize,
    skips: usize,
}

impl Search {
    /// Counts the groups in a row of tokens; `None` is a token that no group has.
    fn count(&self, row: &[Option<usize>], counts: &mut [u64]) {
        let mut shortest = self.shortest;
        // Farther apart than the row is long there are only single tokens, which distance 1 counts.
        for distance in 1..=self.skips.saturating_add(1).min(row.len()) {
            for start in 0..row.len() {
                let mut node = 0;
                let tokens = row[start..].iter().step_by(distance).take(self.longest);
                for (index, token) in tokens.enumerate() {
                    let next = token.and_then(|token| self.groups.steps.get(&(node, token)));
                    let Some(&next) = next else { break };
                    node = next;
                    if let Some(number) = self.groups.ends[node].filter(|_| index + 1 >= shortest) {
                        counts[number] += 1;
                    }
                }
            }
            shortest = shortest.max(2);
        }
    }
}

pub fn tf_idf_vectorizer(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let (rows, columns) = match *data.shape() {
        [] => (1, 1),
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        ref other => return Err(Error::operands(format!("{other:?} are not rows of tokens"))),
    };
    let places = integers(attributes, "ngram_indexes")?;
    let places = places.iter().copied().map(length).collect::<Result<Vec<usize>>>()?;
    let width = places.iter().max().map_or(0, |&last| last.saturating_add(1));
    let shape = if data.rank() == 2 { vec![rows, width] } else { vec![width] };
    let elements = checked_elements(ElementType::F64, &shape)?;
    let mut known = HashMap::new();
    let search = search(attributes, &mut known, places.len())?;
    let weights = attributes.floats("weights")?.unwrap_or(&[]);
    if !weights.is_empty() && weights.len() != places.len() {
        let (found, wanted) = (weights.len(), places.len());
        return Err(Error::operands(format!("{found} weights for {wanted} groups of tokens")));
    }
    let weight = |number: usize| weights.get(number).map_or(1.0, |&weight| f64::from(weight));
    let score: &dyn Fn(usize, u64) -> f64 = match attributes.string_or("mode", "")? {
        "TF" => &|_, count| count as f64,
        "IDF" => &|number, _| weight(number),
        "TFIDF" => &|number, count| weight(number) * count as f64,
        other => {
            return Err(Error::unsupported(format!("TfIdfVectorizer with the mode `{other}`")));
        }
    };
    let tokens: Vec<Option<usize>> =
        tokens(data)?.iter().map(|token| known.get(token).copied()).collect();
    let mut results = filled(0.0, elements)?;
    let mut counts = vec![0; places.len()];
    for (row, result) in results.chunks_exact_mut(width.max(1)).enumerate() {
        counts.fill(0);
        search.count(&tokens[row * columns..(row + 1) * columns], &mut counts);
        for (number, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            result[places[number]] += score(number, count);
        }
    }
    Ok(one(Tensor::from_f64(ElementType::F32, &shape, &results)?))
}

fn integers<'a>(attributes: &'a Attributes, name: &str) -> Result<&'a [i64]> {
    let missing = || Error::operands(format!("the attribute `{name}` is missing"));
    attributes.ints(name)?.ok_or_else(missing)
}

fn tokens(data: &Tensor) -> Result<Vec<Token>> {
    if data.element() == ElementType::String {
        return Ok(data.as_strings()?.iter().cloned().map(Token::Text).collect());
    }
    Ok(data.to_integers()?.into_iter().map(Token::Integer).collect())
}

/// Reads the known groups; `known` numbers their tokens.
fn search(
    attributes: &Attributes,
    known: &mut HashMap<Token, usize>,
    group_count: usize,
) -> Result<Search> {
    let pool: Vec<Token> = match attributes.strings("pool_strings")? {
        Some(strings) => strings.into_iter().map(|text| Token::Text(text.to_owned())).collect(),
        None => {
            let numbers = integers(attributes, "pool_int64s")?;
            numbers.iter().map(|&number| Token::Integer(number.into())).collect()
        }
    };
    let mut numbered = Vec::with_capacity(pool.len());
    for token in pool {
        let next = known.len();
        numbered.push(*known.entry(token).or_insert(next));
    }
    let limit = |name: &str| -> Result<usize> {
        let value = attributes.int(name)?;
        length(value.ok_or_else(|| Error::operands(format!("`{name}` is missing")))?)
    };
    let (shortest, longest) = (limit("min_gram_length")?, limit("max_gram_length")?);
    let starts = integers(attributes, "ngram_counts")?;
    let starts = starts.iter().copied().map(length).collect::<Result<Vec<usize>>>()?;
    let mut groups = Groups { ends: vec![None], ..Groups::default() };
    let mut number = 0;
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(numbered.len());
        let part = numbered.get(start..end).ok_or_else(|| {
            Error::operands(format!("ngram_counts {starts:?} does not fit the pool"))
        })?;
        let size = index + 1;
        for group in part.chunks_exact(size) {
            if number >= group_count {
                return Err(Error::operands("there are more groups of tokens than ngram_indexes"));
            }
            if (shortest..=longest).contains(&size) {
                groups.add(group, number);
            }
            number += 1;
        }
    }
    Ok(Search { groups, shortest, longest, skips: limit("max_skip_count")? })
}
