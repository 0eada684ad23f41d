//! The header of an NPY file: the text of a Python dictionary with three entries.

use crate::binary::Element;
use crate::npy;

/// What the header says.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub element: Element,
    pub big_endian: bool,
    /// Whether the first dimension varies fastest.
    pub fortran: bool,
    pub dims: Vec<usize>,
}

impl Header {
    /// Reads the dictionary, entries in any order, each exactly once.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = Text { rest: text };
        let (mut descr, mut fortran, mut dims) = (None, None, None);
        rest.expect("{")?;
        while !rest.accept("}") {
            let key = rest.quoted()?;
            rest.expect(":")?;
            let repeated = match key {
                "descr" => descr.replace(npy::element(rest.description()?)?).is_some(),
                "fortran_order" => fortran.replace(rest.boolean()?).is_some(),
                "shape" => dims.replace(rest.tuple()?).is_some(),
                other => return Err(format!("its header has an unknown entry `{other}`")),
            };
            if repeated {
                return Err(format!("its header has the entry `{key}` twice"));
            }
            if !rest.accept(",") {
                rest.expect("}")?;
                break;
            }
        }
        if !rest.rest.trim().is_empty() {
            return Err("there is more in its header than one dictionary".into());
        }
        match (descr, fortran, dims) {
            (Some((element, big_endian)), Some(fortran), Some(dims)) => {
                Ok(Header { element, big_endian, fortran, dims })
            }
            _ => Err("its header lacks one of descr, fortran_order and shape".into()),
        }
    }
}

/// What is left of the header.
struct Text<'a> {
    rest: &'a str,
}

impl<'a> Text<'a> {
    /// Skips white space and then a token, if it is there.
    fn accept(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Skips a token that must be there.
    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn unexpected(&self, expected: &str) -> String {
        let found: String = self.rest.chars().take(16).collect();
        format!("its header has {found:?} where {expected} was expected")
    }

    /// A text in single or double quotes. None of those that occur has escapes.
    fn quoted(&mut self) -> Result<&'a str, String> {
        for quote in ["'", "\""] {
            if self.accept(quote) {
                let (text, rest) =
                    self.rest.split_once(quote).ok_or("a quote in its header is not closed")?;
                self.rest = rest;
                return Ok(text);
            }
        }
        Err(self.unexpected("a quoted text"))
    }

    /// A type; those that are lists describe records.
    fn description(&mut self) -> Result<&'a str, String> {
        if self.accept("[") {
            return Err("it holds records of several fields; save each field as an array".into());
        }
        self.quoted()
    }

    fn boolean(&mut self) -> Result<bool, String> {
        if self.accept("True") {
            Ok(true)
        } else if self.accept("False") {
            Ok(false)
        } else {
            Err(self.unexpected("True or False"))
        }
    }

    /// Dimensions: `()`, `(3,)`, `(3, 4)`.
    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        // NumPy itself stops at 64.
        const MOST: usize = 64;
        let mut dims = Vec::new();
        self.expect("(")?;
        while !self.accept(")") {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            let dim = digits.parse().map_err(|_| self.unexpected("a dimension"))?;
            // Python 2 wrote long integers with this letter.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            dims.push(dim);
            if dims.len() > MOST {
                return Err(format!("it has more than {MOST} dimensions"));
            }
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let header =
            Header::parse("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }   \n");
        let expected =
            Header { element: Element::F8, big_endian: false, fortran: false, dims: vec![3, 4] };
        assert_eq!(header, Ok(expected));
        let header = Header::parse("{\"shape\":(7L,),'fortran_order':True,'descr':'>i2'}").unwrap();
        assert!(header.big_endian && header.fortran);
        assert_eq!(header.dims, [7]);
        let header = Header::parse("{'descr': '|b1', 'fortran_order': False, 'shape': ()}");
        assert!(header.unwrap().dims.is_empty());
    }

    #[test]
    fn wrong_headers_say_what_is_wrong() {
        for (text, reason) in [
            ("", "`{` was expected"),
            ("{'descr': '<f4'}", "lacks"),
            ("{'descr': '<f4', 'descr': '<f4'}", "twice"),
            ("{'descr': [('a', '<f4')]", "records"),
            ("{'descr': '<c8'", "`<c8` is not supported"),
            ("{'descr': '|f4'", "not supported"),
            ("{'descr': ''", "not supported"),
            ("{'descr': 'ä", "not closed"),
            ("{'shape': (3, x)", "a dimension was expected"),
            ("{'shape': (-3,)", "a dimension was expected"),
            ("{'shape': (99999999999999999999,)", "a dimension was expected"),
            ("{'fortran_order': 1", "True or False"),
            ("{'other': 1", "unknown entry"),
            ("{} {}", "more in its header"),
        ] {
            let found = Header::parse(text).unwrap_err();
            assert!(found.contains(reason), "{text}: {found}");
        }
    }
}
