//! Damage to JSON documents in their meaning: values of other types, numbers at the edges, members that are
//! missing or belong elsewhere.

use serde_json::{Value, json};

use crate::random::{ODD_INTEGERS, Random, odd_string};

/// Changes some values of a document.
pub fn damage_json(original: &Value, random: &mut Random) -> Value {
    let mut document = original.clone();
    for _ in 0..random.between(1, 3) {
        let places = count(&document);
        let mut at = random.below(places);
        change(&mut document, &mut at, random);
    }
    document
}

/// Values in a document, itself among them. Of long lists a few count: vocabularies would hide the rest.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().take(8).map(count).sum(),
        Value::Object(members) => members.values().take(24).map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that comes `at` places later; true if that was inside `value`.
fn change(value: &mut Value, at: &mut usize, random: &mut Random) -> bool {
    if *at == 0 {
        mutate(value, random);
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(values) => values.iter_mut().take(8).any(|value| change(value, at, random)),
        Value::Object(members) => {
            members.values_mut().take(24).any(|value| change(value, at, random))
        }
        _ => false,
    }
}

fn mutate(value: &mut Value, random: &mut Random) {
    match (random.below(6), &mut *value) {
        (0..=2, Value::Number(_)) => *value = odd_number(random),
        (0..=2, Value::String(_)) => *value = json!(odd_string(random)),
        (0..=2, Value::Bool(truth)) => *truth = !*truth,
        (0, Value::Array(values)) => values.clear(),
        (1, Value::Array(values)) if !values.is_empty() => {
            let extra = values[random.below(values.len())].clone();
            let times = if random.once_in(8) { 2000 } else { 1 };
            values.extend(std::iter::repeat_n(extra, times));
        }
        (2, Value::Array(values)) => drop(values.pop()),
        (0 | 1, Value::Object(members)) if !members.is_empty() => {
            let name = name_of(members, random);
            members.remove(&name);
        }
        (2, Value::Object(members)) if members.len() > 1 => {
            let (one, other) = (name_of(members, random), name_of(members, random));
            let moved = members[&one].clone();
            members.insert(other, moved);
        }
        (3, Value::Object(members)) => {
            members.insert(odd_string(random), odd_number(random));
        }
        (4, value) => {
            // Deeper than a stack of calls should go.
            let depth = if random.once_in(4) { 5_000 } else { 3 };
            let inner = value.take();
            *value = match depth {
                3 => (0..3).fold(inner, |inner, _| json!([inner])),
                _ => json!("[".repeat(depth)),
            };
        }
        (_, value) => {
            *value = match random.below(6) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                3 => json!(odd_string(random)),
                4 => json!(true),
                _ => odd_number(random),
            }
        }
    }
}

fn name_of(members: &serde_json::Map<String, Value>, random: &mut Random) -> String {
    members.keys().nth(random.below(members.len())).cloned().unwrap_or_default()
}

fn odd_number(random: &mut Random) -> Value {
    match random.below(4) {
        0 => json!(1e300),
        1 => json!(-0.5),
        2 => json!(u64::MAX),
        _ => json!(*random.pick(&ODD_INTEGERS)),
    }
}
