//! From one type of elements to another: Cast, CastLike, BitCast, Identity.

use half::f16;

use crate::narrow::{PowerRounding, encode, encode_power};
use crate::operators::{Call, one};
use crate::{ElementType, Error, Result, Tensor, Value};

/// Passes tensors, sequences and optionals through.
pub(super) fn identity(call: &Call<'_>) -> Result<Vec<Value>> {
    let value = call.value(0).ok_or_else(|| Error::operands("the operand 1 is missing"))?;
    Ok(vec![value.clone()])
}

/// The type that an attribute names by its number.
fn target(call: &Call<'_>) -> Result<ElementType> {
    let missing = || Error::operands("the attribute `to` is missing");
    let code = call.attributes().int("to")?.ok_or_else(missing)?;
    ElementType::from_code(i32::try_from(code).unwrap_or(0))
}

pub(super) fn cast(call: &Call<'_>) -> Result<Vec<Value>> {
    convert(call, target(call)?)
}

pub(super) fn cast_like(call: &Call<'_>) -> Result<Vec<Value>> {
    convert(call, call.tensor(1)?.element())
}

fn convert(call: &Call<'_>, to: ElementType) -> Result<Vec<Value>> {
    let saturate = call.attributes().flag("saturate", true)?;
    let rounding = match call.attributes().string_or("round_mode", "up")? {
        "up" => PowerRounding::Up,
        "down" => PowerRounding::Down,
        "nearest" => PowerRounding::Nearest,
        other => return Err(Error::operands(format!("there is no rounding `{other}`"))),
    };
    let x = call.tensor(0)?;
    if x.element() == to {
        return Ok(one(x.clone()));
    }
    let parsed = match x.element() {
        ElementType::String => Some(from_strings(x, to)?),
        _ => None,
    };
    Ok(one(between(parsed.as_ref().unwrap_or(x), to, saturate, rounding)?))
}

/// Numbers to another type.
fn between(x: &Tensor, to: ElementType, saturate: bool, power: PowerRounding) -> Result<Tensor> {
    let whole = !x.element().is_float();
    let narrow = |encode: &dyn Fn(f64) -> u8| {
        let bytes: Vec<u8> = x.to_f64()?.into_iter().map(encode).collect();
        Tensor::from_bytes(to, x.shape(), bytes.into())
    };
    match to {
        same if same == x.element() => Ok(x.clone()),
        ElementType::String => Tensor::strings(x.shape(), to_strings(x)?),
        // Straight, since rounding twice can end elsewhere.
        ElementType::F32 if whole => {
            Tensor::new(x.shape(), x.to_integers()?.into_iter().map(|x| x as f32).collect())
        }
        ElementType::F16 if x.element() == ElementType::F64 => {
            Tensor::new(x.shape(), x.to_f64()?.into_iter().map(f16::from_f64).collect())
        }
        ElementType::F8E8M0 => narrow(&|value| encode_power(value, saturate, power)),
        float if float.is_float() && float.size() == 1 => {
            narrow(&|value| encode(float, value, saturate))
        }
        _ if whole => Tensor::from_integers(to, x.shape(), &x.to_integers()?),
        _ => Tensor::from_f64(to, x.shape(), &x.to_f64()?),
    }
}

/// Numbers as text, without an exponent.
fn to_strings(x: &Tensor) -> Result<Vec<String>> {
    let element = x.element();
    if element == ElementType::Bool {
        let name = |value| if value { "True" } else { "False" };
        return Ok(x.to_bools()?.into_iter().map(|value| name(value).to_owned()).collect());
    }
    if !element.is_float() {
        return Ok(x.to_integers()?.into_iter().map(|value| value.to_string()).collect());
    }
    // As few digits as tell a number from its neighbours, which for f32 are more than for f64.
    let digits = |value: f64| match element {
        ElementType::F64 => value.to_string(),
        _ => (value as f32).to_string(),
    };
    let text = |value: f64| {
        if value.is_nan() {
            "NaN".to_owned()
        } else if value.is_infinite() {
            if value > 0.0 { "INF" } else { "-INF" }.to_owned()
        } else if value.fract() == 0.0 {
            digits(value) + ".0"
        } else {
            digits(value)
        }
    };
    Ok(x.to_f64()?.into_iter().map(text).collect())
}

/// Numbers from text: integers where only those are wanted, so that 64 bits stay exact.
fn from_strings(x: &Tensor, to: ElementType) -> Result<Tensor> {
    let strings = x.as_strings()?;
    let wrong = |text: &str| Error::operands(format!("`{text}` is not a number"));
    if to == ElementType::Bool {
        let truth = |text: &String| match text.trim().to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => other.parse::<f64>().map(|value| value != 0.0).map_err(|_| wrong(text)),
        };
        let values = strings.iter().map(truth).collect::<Result<Vec<bool>>>()?;
        return Tensor::bools(x.shape(), &values);
    }
    // Rust reads signs, exponents, and infinity and NaN in any case.
    let float = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong(text));
    if to.is_integer() {
        let integer = |text: &String| match text.trim().parse::<i128>() {
            Ok(value) => Ok(value),
            Err(_) => float(text).map(|value| value as i128),
        };
        let values = strings.iter().map(integer).collect::<Result<Vec<i128>>>()?;
        return Tensor::from_integers(to, x.shape(), &values);
    }
    if to == ElementType::F32 {
        let values = strings.iter().map(|text| text.trim().parse().map_err(|_| wrong(text)));
        return Tensor::new(x.shape(), values.collect::<Result<Vec<f32>>>()?);
    }
    let values = strings.iter().map(|text| float(text)).collect::<Result<Vec<f64>>>()?;
    Tensor::new(x.shape(), values)
}

/// The same bits as another type of the same width.
pub(super) fn bit_cast(call: &Call<'_>) -> Result<Vec<Value>> {
    let x = call.tensor(0)?;
    let (from, to) = (x.element(), target(call)?);
    let (Some(width), Some(wanted)) = (from.bits_in_files(), to.bits_in_files()) else {
        return Err(Error::operands("strings have no bits to cast"));
    };
    if width != wanted {
        return Err(Error::operands(format!("{from} has other bits than {to}")));
    }
    let bytes = x.bytes()?;
    let bytes = match width {
        // A narrow signed integer lies in its byte with its sign.
        2 | 4 => {
            let unused = 8 - width as u32;
            let signed = to.is_signed_integer();
            let widen = |&byte: &u8| match byte << unused {
                high if signed => ((high as i8) >> unused) as u8,
                high => high >> unused,
            };
            bytes.iter().map(widen).collect::<Vec<u8>>().into()
        }
        _ => bytes.clone(),
    };
    Ok(one(Tensor::from_bytes(to, x.shape(), bytes)?))
}
