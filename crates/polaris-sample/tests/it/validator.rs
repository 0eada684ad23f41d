//! A small validator of JSON schemas, straight from the standard, for the keywords that the tests use.

use serde_json::Value;

use super::random_schemas::PATTERNS;

/// Whether a value fits a schema; `root` is where references begin.
pub fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let rules = match schema {
        Value::Bool(all) => return *all,
        Value::Object(rules) => rules,
        _ => panic!("{schema} is no schema"),
    };
    let holds = |schema: &Value, value: &Value| fits(root, schema, value);
    rules.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$defs" | "title" | "description" | "default" | "additionalProperties" | "items" => true,
        "$ref" => {
            let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
            holds(root.pointer(pointer).unwrap(), value)
        }
        "type" => match rule {
            Value::Array(names) => names.iter().any(|name| has_type(name.as_str().unwrap(), value)),
            name => has_type(name.as_str().unwrap(), value),
        },
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "anyOf" => rule.as_array().unwrap().iter().any(|schema| holds(schema, value)),
        "allOf" => rule.as_array().unwrap().iter().all(|schema| holds(schema, value)),
        "oneOf" => {
            rule.as_array().unwrap().iter().filter(|schema| holds(schema, value)).count() == 1
        }
        "minimum" => value.as_f64().is_none_or(|v| v >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|v| v <= rule.as_f64().unwrap()),
        "exclusiveMinimum" => value.as_f64().is_none_or(|v| v > rule.as_f64().unwrap()),
        "exclusiveMaximum" => value.as_f64().is_none_or(|v| v < rule.as_f64().unwrap()),
        "minLength" => value.as_str().is_none_or(|v| v.chars().count() as u64 >= number(rule)),
        "maxLength" => value.as_str().is_none_or(|v| v.chars().count() as u64 <= number(rule)),
        "pattern" => value.as_str().is_none_or(|v| pattern_fits(rule.as_str().unwrap(), v)),
        "format" => value.as_str().is_none_or(|v| format_fits(rule.as_str().unwrap(), v)),
        "minProperties" => value.as_object().is_none_or(|v| v.len() as u64 >= number(rule)),
        "minItems" => value.as_array().is_none_or(|v| v.len() as u64 >= number(rule)),
        "maxItems" => value.as_array().is_none_or(|v| v.len() as u64 <= number(rule)),
        "prefixItems" => value.as_array().is_none_or(|items| {
            rule.as_array().unwrap().iter().zip(items).all(|(schema, item)| holds(schema, item))
        }),
        "required" => value.as_object().is_none_or(|object| {
            rule.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|object| {
            let listed = rule.as_object().unwrap();
            listed.iter().all(|(name, schema)| object.get(name).is_none_or(|v| holds(schema, v)))
        }),
        _ => panic!("{keyword} is not validated"),
    }) && value.as_object().is_none_or(|object| {
        let listed = |name: &String| rules.get("properties").is_some_and(|p| p.get(name).is_some());
        let others = object.iter().filter(|(name, _)| !listed(name));
        rules
            .get("additionalProperties")
            .is_none_or(|rule| others.into_iter().all(|(_, v)| holds(rule, v)))
    }) && value.as_array().is_none_or(|items| {
        let listed = rules.get("prefixItems").map_or(0, |prefix| prefix.as_array().unwrap().len());
        rules
            .get("items")
            .is_none_or(|rule| items.iter().skip(listed).all(|item| holds(rule, item)))
    })
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().unwrap()
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|v| v.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("{name} is no type"),
    }
}

/// The patterns that the tests use, each by hand.
fn pattern_fits(pattern: &str, text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match PATTERNS.iter().position(|known| *known == pattern).unwrap() {
        0 => !text.is_empty() && text.chars().all(|c| ('a'..='f').contains(&c)),
        1 => {
            let digits = text.strip_suffix("-x").or(text.strip_suffix("_y")).unwrap_or(text);
            (2..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
        }
        2 => text.contains("ab"),
        3 => {
            let chars: Vec<char> = text.chars().collect();
            match chars[..] {
                ['"', c, '"'] | ['"', c, '\n', '"'] => c != '"',
                _ => false,
            }
        }
        4 => {
            let mut chars = text.chars();
            chars.by_ref().take(2).filter(|c| ['a', 'é'].contains(c)).count() == 2
        }
        _ => {
            text.is_empty()
                || text.rsplit_once('@').is_some_and(|(before, after)| {
                    before.ends_with(word) && !after.is_empty() && after.chars().all(word)
                })
        }
    }
}

fn format_fits(format: &str, text: &str) -> bool {
    let digits = |text: &str, count: usize| {
        (text.len() == count && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<u32>().unwrap())
    };
    match format {
        "date" => {
            let parts: Vec<&str> = text.split('-').collect();
            let [year, month, day] = parts[..] else { return false };
            let (Some(y), Some(m), Some(d)) = (digits(year, 4), digits(month, 2), digits(day, 2))
            else {
                return false;
            };
            let leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
            let last = match m {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (1..=12).contains(&m) && (1..=last).contains(&d)
        }
        "time" => {
            let (clock, offset) = text.split_at(text.find(['Z', '+', '-']).unwrap_or(0));
            let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
            let parts: Vec<Option<u32>> = clock.split(':').map(|part| digits(part, 2)).collect();
            let offset_fits = offset == "Z" || {
                let parts: Vec<_> = offset[1..].split(':').map(|part| digits(part, 2)).collect();
                matches!(parts[..], [Some(0..24), Some(0..60)])
            };
            matches!(parts[..], [Some(0..24), Some(0..60), Some(0..60)])
                && !fraction.is_empty()
                && fraction.bytes().all(|b| b.is_ascii_digit())
                && offset_fits
        }
        "date-time" => text
            .split_once('T')
            .is_some_and(|(date, time)| format_fits("date", date) && format_fits("time", time)),
        "uuid" => {
            let lengths: Vec<usize> = text.split('-').map(str::len).collect();
            lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
        }
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "hostname" => text.split('.').all(|label| {
            (1..64).contains(&label.len())
                && label.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric())
                && !label.starts_with('-')
                && !label.ends_with('-')
        }),
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !user.contains(['@', ' ']) && format_fits("hostname", host)
        }),
        "uri" => text.split_once("://").is_some_and(|(scheme, rest)| {
            let end = rest.find(['/', '?', '#', ':']).unwrap_or(rest.len());
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && format_fits("hostname", &rest[..end])
                && !rest.contains([' ', '"', '<', '>'])
        }),
        _ => panic!("{format} is not validated"),
    }
}
