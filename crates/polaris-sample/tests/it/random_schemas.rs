//! Random JSON schemas of every kind that has a grammar.

use serde_json::{Value, json};

use super::random::Random;

/// The patterns that are used; the validator of the tests knows each.
pub const PATTERNS: [&str; 6] =
    ["^[a-f]+$", "^\\d{2,4}(-x|_y)?$", "ab", "^\"[^\"]\\n?\"$", "^(?:a|é){2}", "\\w@\\w+$|^$"];

/// The formats that are used.
pub const FORMATS: [&str; 8] =
    ["date", "time", "date-time", "uuid", "ipv4", "email", "uri", "hostname"];

/// Names of properties: with common beginnings, escapes, and none at all.
const NAMES: [&str; 8] = ["a", "ab", "b", "é", "x y", "q\"\\", "", "tab\t"];

/// A schema, with definitions that it may refer to: a list and a tree.
pub fn schema(random: &mut Random) -> Value {
    let mut schema = part(random, 3);
    let list = json!({"type": "object", "properties": {"value": {"type": "integer"},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}}, "required": ["next"]});
    let leaf = part(random, 0);
    let tree = json!({"type": "object", "additionalProperties": false, "required": ["leaf"],
        "properties": {"leaf": leaf, "kids": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/tree"}}}});
    if let Value::Object(rules) = &mut schema {
        rules.insert("$defs".into(), json!({ "list": list, "tree": tree }));
        return schema;
    }
    json!({ "allOf": [schema], "$defs": { "list": list, "tree": tree } })
}

/// Whether a schema like these may be refused so: two objects of `allOf` may exclude each other or need two patterns at
/// once, and limits of the number of properties have a grammar only where they say nothing new.
pub fn may_be_refused(schema: &str, error: &str) -> bool {
    error.contains("no finite text")
        || (schema.contains("allOf") || schema.contains("anyOf"))
            && error.contains("two of `pattern`")
        || schema.contains("Properties\":") && error.contains("minProperties")
        || schema.contains("allOf") && error.contains("together with `pattern`")
}

fn part(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth == 0 { 12 } else { 20 };
    match random.below(kinds) {
        0 => json!({"type": *random.pick(&["null", "boolean", "integer", "number", "string"])}),
        1 => integer(random),
        2 => number(random),
        3 => {
            let least = random.below(4);
            match random.below(3) {
                0 => json!({"minLength": least, "maxLength": least + random.below(5)}),
                1 => json!({"type": "string", "maxLength": random.below(4)}),
                _ => json!({"type": "string", "minLength": least}),
            }
        }
        4 => json!({"pattern": *random.pick(&PATTERNS)}),
        5 => json!({"type": "string", "format": *random.pick(&FORMATS)}),
        6 => json!({"enum": ["a", 1, null, {"k": [1, "é\"\\\n"]}, -2.5]}),
        7 => json!({"type": ["number", "null"], "minimum": random.below(100)}),
        8 => json!({"const": *random.pick(&["x", "é\u{1f600}", "\u{7f}\u{2028}", ""])}),
        9 => json!({"enum": [1, 2.5, "s", [1], {}], "type": ["integer", "array", "object"]}),
        10 => json!({"const": {"b": [true, {"a": -0.5}], "a": 1e20}, "title": "t", "default": 3}),
        11 => json!({"type": ["boolean", "string"], "maxLength": 2, "description": "d"}),
        12..=14 => object(random, depth),
        15 => array(random, depth),
        16 => {
            let prefix: Vec<Value> =
                (0..1 + random.below(3)).map(|_| part(random, depth - 1)).collect();
            let mut schema = json!({"prefixItems": prefix, "minItems": random.below(4)});
            match random.below(4) {
                0 => schema["items"] = part(random, depth - 1),
                1 => schema["items"] = true.into(),
                // With `minItems` above the prefix this fits nothing.
                2 => {
                    schema["items"] = false.into();
                    schema["minItems"] = 0.into();
                }
                _ => schema["maxItems"] = (3 + random.below(3)).into(),
            }
            schema
        }
        17 => combination(random, depth),
        18 => json!({"$ref": *random.pick(&["#/$defs/list", "#/$defs/tree"])}),
        // Two keywords that apply together.
        _ => json!({"$ref": "#/$defs/tree", "required": ["kids"]}),
    }
}

fn integer(random: &mut Random) -> Value {
    let low = match random.below(4) {
        0 => random.below(3000) as i64 - 1500,
        1 => -(random.below(20) as i64),
        2 => 10i64.pow(random.below(18) as u32) - 1,
        _ => -(10i64.pow(random.below(18) as u32)),
    };
    match random.below(5) {
        0 => json!({"type": "integer", "minimum": low}),
        1 => json!({"type": "integer", "maximum": low}),
        2 => {
            json!({"type": "integer", "exclusiveMinimum": low, "maximum": low + 1 + random.below(9) as i64})
        }
        3 => {
            json!({"type": "integer", "minimum": low as f64 - 0.5, "maximum": low as f64 + 100.25})
        }
        _ => {
            json!({"type": "integer", "minimum": low, "exclusiveMaximum": low + 1 + random.below(5000) as i64})
        }
    }
}

fn number(random: &mut Random) -> Value {
    let scale = *random.pick(&[0.01, 1.0, 1000.0]);
    // Few digits, so that bounds are what they look like.
    let low = (f64::from(random.normal() * 10.0) * scale * 1e4).round() / 1e4;
    let high = low + (f64::from(random.unit()) * 10.0 * 1e3).round() / 1e3 + 0.001;
    match random.below(4) {
        0 => json!({"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high}),
        1 => json!({"type": "number", "minimum": low, "maximum": high}),
        2 => json!({"type": "number", "exclusiveMinimum": low}),
        _ => json!({"type": "number", "maximum": high}),
    }
}

fn array(random: &mut Random, depth: usize) -> Value {
    let least = random.below(3);
    let mut schema = json!({"type": "array", "items": part(random, depth - 1)});
    if random.chance(0.6) {
        schema["minItems"] = least.into();
    }
    if random.chance(0.8) {
        schema["maxItems"] = (least + random.below(3)).into();
    }
    schema
}

fn combination(random: &mut Random, depth: usize) -> Value {
    let options: Vec<Value> = (0..1 + random.below(3)).map(|_| part(random, depth - 1)).collect();
    match random.below(4) {
        0 => json!({ "anyOf": options }),
        1 => json!({"allOf": [object(random, depth), object(random, depth)]}),
        // Something that applies beside the options.
        2 => {
            json!({"type": ["integer", "string", "object", "array"], "anyOf": options, "maxLength": 5, "maxItems": 4})
        }
        _ => {
            let tagged = options.iter().enumerate().map(|(tag, option)| {
                json!({"type": "object", "properties": {"tag": {"const": tag}, "x": option},
                       "required": ["tag"]})
            });
            json!({"oneOf": tagged.collect::<Vec<_>>()})
        }
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let mut schema = json!({"type": "object", "properties": {}});
    let mut required = Vec::new();
    for name in NAMES {
        if random.chance(0.3) {
            schema["properties"][name] = part(random, depth - 1);
        }
        if random.chance(0.12) {
            required.push(name);
        }
    }
    if random.chance(0.1) {
        schema["properties"]["b"] = random.chance(0.8).into();
    }
    if random.chance(0.1) {
        schema["minProperties"] = required.len().into();
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    match random.below(4) {
        0 => schema["additionalProperties"] = random.chance(0.5).into(),
        1 => schema["additionalProperties"] = part(random, 0),
        _ => {}
    }
    schema
}
