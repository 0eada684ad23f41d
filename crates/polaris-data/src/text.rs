//! Text as a data set: windows of tokens, whose targets are the same windows one token later.

use std::path::Path;

use crate::{Dataset, Error, Kind, Result, Spec, Tokenizer, Values, files, memory};

/// A text cut into windows. Example `i` starts at token `i * stride`; its input are `context`
/// tokens, its target for each of them the token that follows.
#[derive(Debug, Clone)]
pub struct TextDataset {
    tokens: Vec<u32>,
    spec: Spec,
    stride: usize,
    len: usize,
}

impl TextDataset {
    /// A data set of tokens. `stride` is the distance between the starts of windows; by default
    /// it is the context, so that every token is predicted once.
    pub fn new(tokens: Vec<u32>, context: usize, stride: Option<usize>) -> Result<Self> {
        let stride = stride.unwrap_or(context);
        for (option, value) in [("context", context), ("stride", stride)] {
            if value == 0 {
                return Err(Error::BadOption {
                    option,
                    value: "0".into(),
                    reason: "it must be at least one token".into(),
                });
            }
        }
        // A window and the token after it.
        let Some(room) = tokens.len().checked_sub(1).and_then(|n| n.checked_sub(context)) else {
            return Err(Error::TextTooShort { tokens: tokens.len(), context });
        };
        let len = room / stride + 1;
        Ok(TextDataset { tokens, spec: Spec::new([context], Kind::I64), stride, len })
    }

    /// A data set of a text.
    pub fn from_text(
        text: &str,
        tokenizer: &dyn Tokenizer,
        context: usize,
        stride: Option<usize>,
    ) -> Result<Self> {
        let tokens = tokenizer.encode(text)?;
        let vocabulary = tokenizer.vocabulary();
        if let Some(token) = tokens.iter().find(|&&t| t as usize >= vocabulary) {
            return Err(Error::Tokenizer {
                action: "encode the text",
                reason: format!("it returned token {token}, but its vocabulary has {vocabulary}"),
            });
        }
        Self::new(tokens, context, stride)
    }

    /// A data set of a file of UTF-8 text, plain or gzip-compressed.
    pub fn from_file(
        path: impl AsRef<Path>,
        tokenizer: &dyn Tokenizer,
        context: usize,
        stride: Option<usize>,
    ) -> Result<Self> {
        Self::from_text(&read_text(path)?, tokenizer, context, stride)
    }

    /// A data set of the bytes of a file of any kind (unpacked, if it is gzip-compressed), each a
    /// token from 0 to 255.
    pub fn from_bytes(
        path: impl AsRef<Path>,
        context: usize,
        stride: Option<usize>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let bytes = files::read_all(path, u64::MAX)?;
        let mut tokens = Vec::new();
        let no_memory =
            |reason| Error::NoMemory { what: format!("the tokens of {}", path.display()), reason };
        memory::require(4 * bytes.len() as u64).map_err(no_memory)?;
        tokens.try_reserve_exact(bytes.len()).map_err(|error| no_memory(error.to_string()))?;
        tokens.extend(bytes.into_iter().map(u32::from));
        Self::new(tokens, context, stride)
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens an input has.
    pub fn context(&self) -> usize {
        self.spec.dims[0]
    }
}

/// A file of UTF-8 text, plain or gzip-compressed.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    String::from_utf8(files::read_all(path, u64::MAX)?).map_err(|e| Error::Format {
        path: path.into(),
        format: "UTF-8 text",
        reason: format!(
            "byte {} is not UTF-8; convert the file, or read it as bytes",
            e.utf8_error().valid_up_to()
        ),
    })
}

impl Dataset for TextDataset {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> &Spec {
        &self.spec
    }

    fn target(&self) -> &Spec {
        &self.spec
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn label(&self, _index: usize) -> Option<usize> {
        None
    }

    fn append(&self, index: usize, input: &mut Values, target: &mut Values) -> Result<()> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        let window = &self.tokens[index * self.stride..][..self.context() + 1];
        for (what, values, tokens) in
            [("inputs", input, &window[..window.len() - 1]), ("targets", target, &window[1..])]
        {
            let Values::I64(values) = values else {
                return Err(Error::KindMismatch {
                    what: format!("{what} to append to"),
                    expected: Kind::I64,
                    found: Kind::F32,
                });
            };
            values.extend(tokens.iter().map(|&token| i64::from(token)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    fn windows(text: &str, context: usize, stride: Option<usize>) -> Vec<(String, String)> {
        let data = TextDataset::from_text(text, &Bytes, context, stride).unwrap();
        let text = |values: &Values| {
            let tokens: Vec<u32> = values.as_i64().unwrap().iter().map(|&t| t as u32).collect();
            Bytes.decode(&tokens)
        };
        (0..data.len())
            .map(|index| {
                let (mut input, mut target) = (Values::new(Kind::I64), Values::new(Kind::I64));
                data.append(index, &mut input, &mut target).unwrap();
                (text(&input), text(&target))
            })
            .collect()
    }

    #[test]
    fn targets_are_the_next_tokens() {
        let expected = [("abc", "bcd"), ("def", "efg")].map(|(a, b)| (a.into(), b.into()));
        assert_eq!(windows("abcdefgh", 3, None), expected);
        assert_eq!(windows("abcdefg", 3, None), expected);
        assert_eq!(windows("abcdef", 3, None), expected[..1]);
        assert_eq!(windows("abcdefg", 3, Some(1)).len(), 4);
        assert_eq!(windows("ab", 1, Some(usize::MAX)), [("a".into(), "b".into())]);
    }

    #[test]
    fn too_short_a_text_is_an_error_with_figures() {
        for (text, context) in [("", 1), ("abc", 3), ("abc", usize::MAX)] {
            let error = TextDataset::from_text(text, &Bytes, context, None).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(&format!("{} tokens", text.len())), "{message}");
            assert!(message.contains(&context.to_string()), "{message}");
        }
        assert!(TextDataset::from_text("abc", &Bytes, 0, None).is_err());
        assert!(TextDataset::from_text("abc", &Bytes, 1, Some(0)).is_err());
    }
}
