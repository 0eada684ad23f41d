//! JSON schemas: tables by hand, and texts for random schemas against an independent validator.

use polaris_sample::{Error, Grammar, Matcher};
use serde_json::Value;

use crate::Random;
use crate::random_schemas;
use crate::recogniser::accepts;
use crate::validator::fits;
use crate::walks::{pieces, vocabulary, write};

#[track_caller]
fn check(schema: &str, good: &[&str], bad: &[&str]) {
    let grammar = Grammar::from_json_schema(schema).unwrap();
    let mut random = Random::new(1);
    for text in good {
        assert!(accepts(&grammar, text.as_bytes(), &mut random), "{schema}: {text}");
    }
    for text in bad {
        assert!(!accepts(&grammar, text.as_bytes(), &mut random), "{schema}: {text}");
    }
}

#[test]
fn scalars() {
    check("{}", &["null", "{\"a\": [1]}", "\"x\"", "-1.5e3"], &["", "x", "01", "{a:1}"]);
    check(r#"{"type":"boolean"}"#, &["true", "false"], &["null", "True"]);
    check(r#"{"type":["integer","null"]}"#, &["0", "-12", "null"], &["1.5", "\"1\"", "1e3"]);
    check(r#"{"enum":["a\"b",1,null,{"x":[1]}]}"#, &[r#""a\"b""#, "1", r#"{"x":[1]}"#], &["2"]);
    check(r#"{"const":"é","type":"string"}"#, &["\"é\""], &["\"e\""]);
    check(r#"{"enum":[1,2,"x",9],"type":"number","maximum":5}"#, &["1", "2"], &["\"x\"", "9"]);
    check(
        r#"{"type":"string","minLength":1,"maxLength":2}"#,
        &["\"a\"", "\"日é\"", "\"\\n\\u00e9\"", "\"\\ud83d\\ude00a\""],
        &["\"\"", "\"abc\"", "\"\\ud83d\"", "\"\n\""],
    );
}

#[test]
fn integers_within_bounds() {
    for (low, high) in [(0, 0), (-1, 1), (7, 123), (-250, -37), (-99, 1000), (95, 105), (100, 100)]
    {
        let schema =
            format!(r#"{{"type":"integer","minimum":{low},"exclusiveMaximum":{}}}"#, high + 1);
        let grammar = Grammar::from_json_schema(&schema).unwrap();
        let mut random = Random::new(2);
        for value in -1200i64..1200 {
            let found = accepts(&grammar, value.to_string().as_bytes(), &mut random);
            assert_eq!(found, (low..=high).contains(&value), "{schema}: {value}");
        }
        assert!(!accepts(&grammar, b"007", &mut random));
    }
    check(r#"{"type":"integer","minimum":-5}"#, &["-5", "0", "999999"], &["-6", "-10"]);
    check(r#"{"type":"integer","maximum":-5.5}"#, &["-6", "-12345"], &["-5", "0", "5"]);
    check(r#"{"type":"integer","exclusiveMinimum":1.5,"maximum":2}"#, &["2"], &["1", "3"]);
    let largest = r#"{"type":"integer","minimum":18446744073709551615}"#;
    check(largest, &["18446744073709551615", "18446744073709551616"], &["18446744073709551614"]);
}

#[test]
fn numbers_within_bounds() {
    let cases = [(0.0, 1.0), (-1.5, 2.25), (0.1, 0.3), (-0.05, -0.01), (9.99, 1000.5), (5.0, 5.0)];
    let mut random = Random::new(3);
    for (low, high) in cases {
        for exclusive in [false, true] {
            let name = if exclusive { "exclusiveM" } else { "m" };
            let schema =
                format!(r#"{{"type":"number","{name}inimum":{low},"{name}aximum":{high}}}"#);
            let Ok(grammar) = Grammar::from_json_schema(&schema) else {
                assert!(exclusive && low == high);
                continue;
            };
            for _ in 0..2000 {
                let digits = random.below(5);
                let around = if random.chance(0.5) { low } else { high };
                let value =
                    around + f64::from(random.normal()) * [0.001, 0.1, 3.0][random.below(3)];
                let text = format!("{value:.digits$}");
                let parsed: f64 = text.parse().unwrap();
                let inside = match exclusive {
                    true => low < parsed && parsed < high,
                    false => (low..=high).contains(&parsed),
                };
                // Zero has two signs, of which one is written.
                if parsed != 0.0 {
                    assert_eq!(
                        accepts(&grammar, text.as_bytes(), &mut random),
                        inside,
                        "{schema}: {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn objects_and_arrays() {
    let object = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"const":1}},
        "required":["b"]}"#;
    check(
        object,
        &[
            r#"{"b":true}"#,
            r#"{"a":1,"b":true}"#,
            r#"{"a":1, "b": true, "c":1}"#,
            "{\n  \"b\" : true,\"c\":1\n}",
        ],
        &["{}", r#"{"a":1}"#, r#"{"b":true,"a":1}"#, r#"{"b":true,}"#, r#"{"b":true,"d":1}"#],
    );
    check(
        r#"{"properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}}"#,
        &["{}", r#"{"ab":null}"#, r#"{"ab":null,"a":1,"abc":2,"":3}"#, r#"{"b":1}"#],
        &[r#"{"ab":1}"#, r#"{"a":null}"#, r#"{"a":1,"ab":2}"#, r#"{"\u0061b":1}"#],
    );
    check(r#"{"type":"object","properties":{}}"#, &["{}", "{ }"], &[r#"{"a":1}"#]);
    check(r#"{"type":"object"}"#, &["{}", r#"{"a":[{}]}"#], &["[]"]);
    check(r#"{"required":["x"]}"#, &[r#"{"x":null}"#], &["{}"]);
    check(
        r#"{"properties":{"a":{"const":1},"b":false},"required":["a"]}"#,
        &[r#"{"a":1}"#],
        &[r#"{"a":1,"b":2}"#],
    );
    check(
        r#"{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}"#,
        &["[1]", "[1, 2,3]"],
        &["[]", "[1,2,3,4]", "[1,]"],
    );
    let tuple = r#"{"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1,"maxItems":4}"#;
    check(tuple, &["[1]", "[1,2]", "[1,2,3,3]"], &["[]", "[2]", "[1,3]", "[1,2,3,3,3]"]);
    check(r#"{"items":[{"const":1}],"additionalItems":false}"#, &["[]", "[1]"], &["[1,2]"]);
    check(r#"{"type":"array","items":false}"#, &["[]"], &["[1]"]);
    check(r#"{"type":"array","maxItems":0}"#, &["[]", "[ ]"], &["[1]"]);
}

#[test]
fn combinations_and_references() {
    let tree = r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
        "v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v"]}}}"##;
    check(tree, &[r#"{"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]}"#], &[r#"{"kids":[]}"#]);
    let merged = r#"{"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},
        {"properties":{"a":{"maximum":3,"type":"integer"},"b":{"type":"null"}}}]}"#;
    check(merged, &[r#"{"a":3,"b":null}"#, r#"{"a":1}"#], &[r#"{"a":4}"#, r#"{"a":1.5}"#, "{}"]);
    // `false` for others in one part forbids what the other part lists.
    let closed = r#"{"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]}"#;
    check(closed, &["{}", r#"{"a":1}"#], &[r#"{"b":1}"#]);
    let any = r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"minimum":3,"maxLength":1}"#;
    check(any, &["3", "\"a\""], &["2", "\"ab\""]);
    let tagged = r#"{"oneOf":[{"properties":{"t":{"const":"a"},"x":{"type":"integer"}},"required":["t","x"]},
        {"properties":{"t":{"const":"b"}},"required":["t"]}]}"#;
    check(tagged, &[r#"{"t":"a","x":1}"#, r#"{"t":"b"}"#], &[r#"{"t":"a"}"#, r#"{"t":"b","x":1}"#]);
    check(
        r#"{"oneOf":[{"type":"integer","maximum":3},{"minimum":4,"type":"integer"}]}"#,
        &["3", "4"],
        &["x"],
    );
    check(
        r##"{"properties":{"a~/%b":{"const":1},"c":{"$ref":"#/properties/a~0~1%25b"}}}"##,
        &[r#"{"c":1}"#],
        &[r#"{"c":2}"#],
    );
    check(r#"{"anyOf":[false,{"const":1},{"enum":[]}]}"#, &["1"], &["2"]);
}

#[test]
fn what_has_no_grammar_is_an_error() {
    let cases = [
        (r#"{"not":{"type":"null"}}"#, "#/not: `not`"),
        (r#"{"type":"array","uniqueItems":true}"#, "uniqueItems"),
        (r#"{"multipleOf":3}"#, "multipleOf"),
        (r#"{"patternProperties":{"a":{}}}"#, "patternProperties"),
        (r#"{"if":true}"#, "`if`"),
        (r#"{"properties":{"x":{"format":"regex"}}}"#, "#/properties/x/format: the format `regex`"),
        (r#"{"pattern":"(?=a)"}"#, "`(?`"),
        (r#"{"pattern":"a\\b"}"#, "`\\b` is not supported"),
        (r#"{"pattern":"(a"}"#, "a group does not end"),
        (r#"{"pattern":"a^b"}"#, "at the ends"),
        (r#"{"pattern":"a","minLength":3}"#, "two of `pattern`"),
        (r#"{"pattern":"a","const":"a"}"#, "together with `pattern`"),
        (r#"{"minProperties":2}"#, "minProperties"),
        (r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#, "options 0 and 1"),
        (r#"{"oneOf":[{"type":"string"},{"enum":["a",1]}]}"#, "may fit the same value"),
        (r#"{"$ref":"http://x/y"}"#, "supported are `#`"),
        (r##"{"$ref":"#/nothing"}"##, "has no `#/nothing`"),
        (r##"{"$ref":"#"}"##, "limit"),
        (r##"{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, "left recursion"),
        (r##"{"properties":{"x":{"$ref":"#"}},"required":["x"]}"##, "matches no finite text"),
        ("false", "matches no finite text"),
        (r#"{"type":"integer","minimum":3,"maximum":2}"#, "matches no finite text"),
        (r#"{"type":"text"}"#, "`type` is one of"),
        (r#"{"minLength":-1}"#, "is no number from 0"),
        (r#"{"minimum":"a"}"#, "a bound is a number, not a string"),
        (r#"{"anyOf":[]}"#, "not an array of schemas"),
        (r#"{"properties":{"a":3}}"#, "#/properties/a: a schema is an object or a boolean"),
        (r#"{"a":1,"a":2}"#, "same key twice"),
        ("{", "line 1, column 1"),
        ("[]", "not an array"),
    ];
    for (schema, message) in cases {
        let error = Grammar::from_json_schema(schema).unwrap_err();
        assert!(error.to_string().contains(message), "{schema}: {error}");
        let expected = matches!(
            error,
            Error::Schema { .. }
                | Error::Unsupported { .. }
                | Error::Rule { .. }
                | Error::Limit { .. }
        );
        assert!(expected, "{error:?}");
    }
}

#[test]
fn texts_for_random_schemas_validate() {
    let mut random = Random::new(31);
    let (mut schemas, mut texts, mut endless) = (0, 0, 0);
    while texts < 1000 {
        let schema = random_schemas::schema(&mut random);
        let text = schema.to_string();
        let grammar = match Grammar::from_json_schema(&text) {
            Ok(grammar) => grammar,
            Err(error) if random_schemas::may_be_refused(&text, &error.to_string()) => continue,
            Err(error) => panic!("{text}: {error}"),
        };
        schemas += 1;
        let vocabulary = vocabulary(&mut random);
        let mut matcher = Matcher::new(&grammar, pieces(&vocabulary)).unwrap();
        for _ in 0..4 {
            let Some(written) = write(&mut matcher, &vocabulary, &mut random, 2500) else {
                endless += 1;
                continue;
            };
            let value: Value = serde_json::from_slice(&written)
                .unwrap_or_else(|e| panic!("{text}: {e}: {}", String::from_utf8_lossy(&written)));
            assert!(fits(&schema, &schema, &value), "{text}\n{value}");
            texts += 1;
        }
    }
    assert!(endless < 20, "{endless} of {texts} texts did not end, for {schemas} schemas");
}
