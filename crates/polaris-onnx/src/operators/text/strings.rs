//! RegexFullMatch, StringConcat, StringNormalizer, StringSplit.

use std::collections::HashSet;

use regex::Regex;

use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::room::with_room;
use crate::{ElementType, Error, Result, Tensor, Value};

pub fn regex_full_match(call: &Call<'_>) -> Result<Vec<Value>> {
    let data = call.tensor(0)?;
    let pattern = call.attributes().string("pattern")?;
    let pattern = pattern.ok_or_else(|| Error::operands("the attribute `pattern` is missing"))?;
    let compile = |pattern: &str| {
        let wrong = |error: regex::Error| Error::operands(format!("the pattern is wrong: {error}"));
        Regex::new(pattern).map_err(wrong)
    };
    // Alone first: parentheses that do not match could close those put around it.
    compile(pattern)?;
    let whole = compile(&format!(r"\A(?:{pattern})\z"))?;
    let matches: Vec<bool> = data.as_strings()?.iter().map(|text| whole.is_match(text)).collect();
    Ok(one(Tensor::bools(data.shape(), &matches)?))
}

pub fn string_concat(call: &Call<'_>) -> Result<Vec<Value>> {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    let shape = walk::broadcast_shapes(&[first.shape(), second.shape()])?;
    checked_elements(ElementType::String, &shape)?;
    let (a, b) = (first.as_strings()?, second.as_strings()?);
    let places = walk::broadcast_places(first.shape(), &shape)?;
    let others = walk::broadcast_places(second.shape(), &shape)?;
    let lengths = places.iter().zip(&others).map(|(&i, &j)| a[i].len().saturating_add(b[j].len()));
    checked_elements(ElementType::U8, &[lengths.fold(0, usize::saturating_add)])?;
    let joined = places.iter().zip(&others).map(|(&i, &j)| [a[i].as_str(), b[j].as_str()].concat());
    Ok(one(Tensor::strings(&shape, joined.collect())?))
}

pub fn string_normalizer(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let mut shape = data.shape().to_vec();
    if !matches!(shape.as_slice(), [_] | [1, _]) {
        return Err(Error::operands(format!("a row of strings was expected, not {shape:?}")));
    }
    let case_matters = attributes.flag("is_case_sensitive", false)?;
    let compared = |text: &str| if case_matters { text.to_owned() } else { text.to_lowercase() };
    let stop_words = attributes.strings("stopwords")?.unwrap_or_default();
    let stop_words: HashSet<String> = stop_words.into_iter().map(compared).collect();
    let change: fn(&str) -> String = match attributes.string_or("case_change_action", "NONE")? {
        "NONE" => str::to_owned,
        "LOWER" => str::to_lowercase,
        "UPPER" => str::to_uppercase,
        other => return Err(Error::unsupported(format!("the change of case `{other}`"))),
    };
    let kept = data.as_strings()?.iter().filter(|text| !stop_words.contains(&compared(text)));
    let mut strings: Vec<String> = kept.map(|text| change(text)).collect();
    if strings.is_empty() {
        strings.push(String::new());
    }
    let last = shape.len() - 1;
    shape[last] = strings.len();
    Ok(one(Tensor::strings(&shape, strings)?))
}

pub fn string_split(call: &Call<'_>) -> Result<Vec<Value>> {
    let (data, attributes) = (call.tensor(0)?, call.attributes());
    let delimiter = attributes.string_or("delimiter", "")?;
    // No number, and a negative one, mean no limit.
    let most = attributes.int("maxsplit")?.map_or(usize::MAX, |most| {
        usize::try_from(most).map_or(usize::MAX, |most| most.saturating_add(1))
    });
    let split = |text: &'_ String| -> Vec<String> {
        match delimiter {
            "" => words(text, most).into_iter().map(str::to_owned).collect(),
            _ => text.splitn(most, delimiter).map(str::to_owned).collect(),
        }
    };
    let lists: Vec<Vec<String>> = data.as_strings()?.iter().map(split).collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<i64> = lists.iter().map(|list| list.len() as i64).collect();
    let mut shape = data.shape().to_vec();
    shape.push(longest);
    let mut parts = with_room(checked_elements(ElementType::String, &shape)?)?;
    for mut list in lists {
        list.resize(longest, String::new());
        parts.append(&mut list);
    }
    let mut results = one(Tensor::strings(&shape, parts)?);
    results.push(Value::Tensor(Tensor::new(data.shape(), counts)?));
    Ok(results)
}

/// The words of a text, at most so many; the last one is then all the rest.
fn words(text: &str, most: usize) -> Vec<&str> {
    let mut list = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = if list.len() + 1 >= most { None } else { rest.find(char::is_whitespace) };
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        list.push(word);
        rest = behind.trim_start();
    }
    list
}
