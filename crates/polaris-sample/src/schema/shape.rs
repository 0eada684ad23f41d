//! The keywords of schemas that apply together, collected.

use super::json::Json;
use super::number::Bound;
use super::{Converter, Part};
use crate::error::Shown;
use crate::{Error, Result};

/// The deepest chain of `$ref` and `allOf`.
const DEEPEST: usize = 64;

/// Types of JSON values, as bits. A number is an integer or a fraction.
pub(super) mod types {
    pub const NULL: u8 = 1;
    pub const BOOLEAN: u8 = 2;
    pub const STRING: u8 = 4;
    pub const INTEGER: u8 = 8;
    pub const FRACTION: u8 = 16;
    pub const NUMBER: u8 = INTEGER | FRACTION;
    pub const OBJECT: u8 = 32;
    pub const ARRAY: u8 = 64;
    pub const ALL: u8 = 127;
}

/// Keywords that describe values without restricting them, or that only hold other schemas.
const ANNOTATIONS: [&str; 17] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "$anchor",
    "$vocabulary",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// Keywords that restrict values in ways that have no grammar here.
const UNSUPPORTED: [&str; 17] = [
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "multipleOf",
    "$dynamicRef",
    "$recursiveRef",
];

/// Alternatives, of which one must apply; exactly one if they are exclusive.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub options: &'a [Json],
    pub exclusive: bool,
    pub at: &'a Json,
}

/// What one schema says about objects.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    /// Whether it lists properties, perhaps none.
    pub lists: bool,
    pub properties: &'a [(String, Json)],
    pub additional: Option<&'a Json>,
}

/// What one schema says about arrays.
#[derive(Debug, Default)]
pub(super) struct Array<'a> {
    pub prefix: &'a [Json],
    pub items: Option<&'a Json>,
}

/// Everything that a list of schemas says.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub types: u8,
    /// The types that the keywords are about; without a type they stand for it.
    pub implied: u8,
    pub constants: Option<Vec<&'a Json>>,
    pub low: Option<Bound>,
    pub high: Option<Bound>,
    pub min_length: u64,
    pub max_length: Option<u64>,
    pub pattern: Option<&'a Json>,
    pub format: Option<&'a Json>,
    pub objects: Vec<Object<'a>>,
    pub required: Vec<&'a str>,
    pub min_properties: u64,
    pub max_properties: Option<u64>,
    pub arrays: Vec<Array<'a>>,
    pub min_items: u64,
    pub max_items: Option<u64>,
    pub groups: Vec<Group<'a>>,
}

impl Shape<'_> {
    /// Whether every value fits, apart from the alternatives.
    pub fn is_free(&self) -> bool {
        self.types == types::ALL && self.implied == 0 && self.constants.is_none()
    }

    /// The types of the values that are written.
    pub fn written(&self) -> u8 {
        if self.types == types::ALL && self.implied != 0 { self.implied } else { self.types }
    }
}

impl<'a> Converter<'a> {
    /// Collects the keywords of schemas that apply together.
    pub(super) fn shape(&mut self, parts: &[Part<'a>]) -> Result<Shape<'a>> {
        let mut shape = Shape {
            types: types::ALL,
            implied: 0,
            constants: None,
            low: None,
            high: None,
            min_length: 0,
            max_length: None,
            pattern: None,
            format: None,
            objects: Vec::new(),
            required: Vec::new(),
            min_properties: 0,
            max_properties: None,
            arrays: Vec::new(),
            min_items: 0,
            max_items: None,
            groups: Vec::new(),
        };
        for part in parts {
            self.collect(*part, &mut shape, 0)?;
        }
        Ok(shape)
    }

    fn collect(&mut self, part: Part<'a>, shape: &mut Shape<'a>, depth: usize) -> Result<()> {
        if depth > DEEPEST {
            return Err(Error::limit("nested `$ref` and `allOf` of a JSON schema", DEEPEST));
        }
        self.count_work(1)?;
        let json = part.json;
        let entries = match json {
            Json::Bool(true) => return Ok(()),
            Json::Bool(false) => {
                shape.types = 0;
                return Ok(());
            }
            Json::Object(entries) => entries,
            _ => {
                let why = format!("a schema is an object or a boolean, not {}", json.kind());
                return Err(self.invalid(json, why));
            }
        };
        let mut object = Object::default();
        let mut array = Array::default();
        for (key, value) in entries {
            self.count_work(1)?;
            match key.as_str() {
                "$ref" => {
                    let target = self.resolve(json, value)?;
                    self.collect(Part { json: target, bare: part.bare }, shape, depth + 1)?;
                }
                "allOf" => {
                    for option in self.schemas(value)? {
                        self.collect(Part { json: option, bare: part.bare }, shape, depth + 1)?;
                    }
                }
                "anyOf" | "oneOf" => {
                    let options = self.schemas(value)?;
                    if !part.bare {
                        shape.groups.push(Group { options, exclusive: key == "oneOf", at: value });
                    }
                }
                "properties" => match value {
                    Json::Object(properties) => {
                        object.lists = true;
                        object.properties = properties;
                    }
                    _ => return Err(self.invalid(value, "`properties` is not an object")),
                },
                "additionalProperties" => object.additional = Some(value),
                "prefixItems" => array.prefix = self.schemas(value)?,
                // Before 2020-12, a list of schemas was written like this.
                "items" => match value {
                    Json::Array(prefix) => {
                        array.prefix = prefix;
                        array.items = json.get("additionalItems");
                    }
                    _ => array.items = Some(value),
                },
                "additionalItems" => {}
                _ => self.keyword(key, value, shape)?,
            }
        }
        if object.lists || object.additional.is_some() {
            shape.implied |= types::OBJECT;
            shape.objects.push(object);
        }
        if !array.prefix.is_empty() || array.items.is_some() {
            shape.implied |= types::ARRAY;
            shape.arrays.push(array);
        }
        Ok(())
    }

    /// Keywords with a value of their own.
    fn keyword(&mut self, key: &str, value: &'a Json, shape: &mut Shape<'a>) -> Result<()> {
        match key {
            "type" => shape.types &= self.types(value)?,
            "const" => self.constants(vec![value], shape)?,
            "enum" => match value {
                Json::Array(values) => self.constants(values.iter().collect(), shape)?,
                _ => return Err(self.invalid(value, "`enum` is not an array")),
            },
            "minimum" | "exclusiveMinimum" => {
                let bound = self.bound(value, key == "exclusiveMinimum")?;
                shape.low = Some(shape.low.map_or(bound, |old| tighter(old, bound)));
                shape.implied |= types::NUMBER;
            }
            "maximum" | "exclusiveMaximum" => {
                let bound = self.bound(value, key == "exclusiveMaximum")?.mirrored();
                let old = shape.high.map(|old| old.mirrored());
                shape.high = Some(old.map_or(bound, |old| tighter(old, bound)).mirrored());
                shape.implied |= types::NUMBER;
            }
            "minLength" => {
                shape.min_length = shape.min_length.max(self.count(value)?);
                shape.implied |= types::STRING;
            }
            "maxLength" => {
                shape.max_length = least(shape.max_length, self.count(value)?);
                shape.implied |= types::STRING;
            }
            "pattern" | "format" => {
                let place = if key == "pattern" { &mut shape.pattern } else { &mut shape.format };
                if place.is_some_and(|old| !old.equals(value)) {
                    return Err(self.unsupported(value, format!("a second `{key}` for a value")));
                }
                *place = Some(value);
                shape.implied |= types::STRING;
            }
            "required" => {
                let Json::Array(names) = value else {
                    return Err(self.invalid(value, "`required` is not an array"));
                };
                for name in names {
                    let name = name.as_str();
                    let name = name.ok_or_else(|| self.invalid(value, "a name is not a string"))?;
                    self.count_work(1 + shape.required.len() / 8)?;
                    if !shape.required.contains(&name) {
                        shape.required.push(name);
                    }
                }
                shape.implied |= types::OBJECT;
            }
            "minProperties" => {
                shape.min_properties = shape.min_properties.max(self.count(value)?);
                shape.implied |= types::OBJECT;
            }
            "maxProperties" => {
                shape.max_properties = least(shape.max_properties, self.count(value)?);
                shape.implied |= types::OBJECT;
            }
            "minItems" => {
                shape.min_items = shape.min_items.max(self.count(value)?);
                shape.implied |= types::ARRAY;
            }
            "maxItems" => {
                shape.max_items = least(shape.max_items, self.count(value)?);
                shape.implied |= types::ARRAY;
            }
            "uniqueItems" if *value == Json::Bool(false) => {}
            "uniqueItems" => return Err(self.unsupported(value, "`uniqueItems`")),
            _ if ANNOTATIONS.contains(&key) => {}
            _ if UNSUPPORTED.contains(&key) => {
                return Err(self.unsupported(value, format!("`{key}`")));
            }
            // By the standard, unknown keywords say nothing about values.
            _ => {}
        }
        Ok(())
    }

    fn constants(&mut self, values: Vec<&'a Json>, shape: &mut Shape<'a>) -> Result<()> {
        shape.constants = Some(match shape.constants.take() {
            None => values,
            Some(old) => {
                self.count_work(old.len() * values.len())?;
                old.into_iter().filter(|a| values.iter().any(|b| a.equals(b))).collect()
            }
        });
        Ok(())
    }

    fn schemas(&self, value: &'a Json) -> Result<&'a [Json]> {
        match value {
            Json::Array(schemas) if !schemas.is_empty() => Ok(schemas),
            _ => Err(self.invalid(value, "this is not an array of schemas")),
        }
    }

    fn types(&self, value: &Json) -> Result<u8> {
        let one = |value: &Json| match value.as_str() {
            Some("null") => Ok(types::NULL),
            Some("boolean") => Ok(types::BOOLEAN),
            Some("string") => Ok(types::STRING),
            Some("integer") => Ok(types::INTEGER),
            Some("number") => Ok(types::NUMBER),
            Some("object") => Ok(types::OBJECT),
            Some("array") => Ok(types::ARRAY),
            _ => Err(self.invalid(
                value,
                "`type` is one of null, boolean, string, integer, number, object and array",
            )),
        };
        match value {
            Json::Array(names) => names.iter().try_fold(0, |types, name| Ok(types | one(name)?)),
            _ => one(value),
        }
    }

    fn bound(&self, value: &Json, exclusive: bool) -> Result<Bound> {
        // In draft 4, `exclusiveMinimum` was a boolean beside `minimum`.
        let Json::Number(number) = value else {
            return Err(self.invalid(value, format!("a bound is a number, not {}", value.kind())));
        };
        let integer = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
        let float = number.as_f64().unwrap_or(f64::NAN);
        // A fraction of zero is an integer too.
        let whole = (float.fract() == 0.0 && float.abs() < 1e15).then_some(float as i128);
        Ok(Bound { value: float, integer: integer.or(whole), exclusive })
    }

    fn count(&self, value: &Json) -> Result<u64> {
        let number = match value {
            Json::Number(number) => number.as_u64().or_else(|| {
                number
                    .as_f64()
                    .filter(|f| f.fract() == 0.0 && (0.0..1e15).contains(f))
                    .map(|f| f as u64)
            }),
            _ => None,
        };
        number.ok_or_else(|| {
            let text = value.to_string();
            self.invalid(value, format!("`{}` is no number from 0", Shown(&text)))
        })
    }
}

/// The lower bound that admits fewer numbers.
fn tighter(a: Bound, b: Bound) -> Bound {
    let order = match (a.integer, b.integer) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.value.total_cmp(&b.value),
    };
    match order.then(a.exclusive.cmp(&b.exclusive)) {
        std::cmp::Ordering::Less => b,
        _ => a,
    }
}

fn least(old: Option<u64>, new: u64) -> Option<u64> {
    Some(old.map_or(new, |old| old.min(new)))
}
