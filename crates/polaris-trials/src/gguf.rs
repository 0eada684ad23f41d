//! GGUF files, written byte by byte so that they can be wrong.

/// A file whose every number can be changed by itself.
#[derive(Debug, Clone)]
pub struct File {
    pub version: u32,
    /// The numbers of tensors and pairs that the header tells, where they are not those that there are.
    pub counts: [Option<u64>; 2],
    pub pairs: Vec<Pair>,
    pub tensors: Vec<Tensor>,
    pub alignment: usize,
}

#[derive(Debug, Clone)]
pub struct Pair {
    pub key: Vec<u8>,
    pub value: Value,
}

/// A value: the number of its type, and its bytes.
#[derive(Debug, Clone)]
pub struct Value {
    pub ty: u32,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: Vec<u8>,
    /// Innermost first.
    pub dims: Vec<u64>,
    /// The number of dimensions that is told, where it is not that of the list.
    pub rank: Option<u32>,
    pub ty: u32,
    /// Where it is told to be, if not where it is.
    pub offset: Option<u64>,
    pub data: Vec<u8>,
}

/// The numbers of value types that are used here.
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;

/// A string: its length and its bytes.
pub fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

impl Value {
    pub fn u32(value: u32) -> Self {
        Self { ty: U32, bytes: value.to_le_bytes().into() }
    }

    pub fn f32(value: f32) -> Self {
        Self { ty: F32, bytes: value.to_le_bytes().into() }
    }

    pub fn bool(value: bool) -> Self {
        Self { ty: BOOL, bytes: vec![value.into()] }
    }

    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self { ty: STRING, bytes: string(text.as_ref()) }
    }

    /// An array of items of a type, which are given as bytes; `count` is what it tells.
    pub fn array(item: u32, count: u64, items: &[u8]) -> Self {
        let mut bytes = item.to_le_bytes().to_vec();
        bytes.extend(count.to_le_bytes());
        bytes.extend(items);
        Self { ty: ARRAY, bytes }
    }

    pub fn texts<T: AsRef<[u8]>>(texts: &[T]) -> Self {
        let items: Vec<u8> = texts.iter().flat_map(|text| string(text.as_ref())).collect();
        Self::array(STRING, texts.len() as u64, &items)
    }

    pub fn numbers<const N: usize>(item: u32, numbers: impl Iterator<Item = [u8; N]>) -> Self {
        let items: Vec<u8> = numbers.flatten().collect();
        Self::array(item, (items.len() / N) as u64, &items)
    }
}

impl File {
    pub fn new() -> Self {
        let (pairs, tensors) = (Vec::new(), Vec::new());
        Self { version: 3, counts: [None; 2], pairs, tensors, alignment: 32 }
    }

    /// Sets a value, in the place of the one that is there.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.pairs.iter_mut().find(|pair| pair.key == key.as_bytes()) {
            Some(pair) => pair.value = value,
            None => self.pairs.push(Pair { key: key.into(), value }),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        let counts = [self.tensors.len(), self.pairs.len()];
        for (told, there) in self.counts.iter().zip(counts) {
            file.extend(told.unwrap_or(there as u64).to_le_bytes());
        }
        for pair in &self.pairs {
            file.extend(string(&pair.key));
            file.extend(pair.value.ty.to_le_bytes());
            file.extend(&pair.value.bytes);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            file.extend(string(&tensor.name));
            file.extend(tensor.rank.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            file.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            file.extend(tensor.ty.to_le_bytes());
            file.extend(tensor.offset.unwrap_or(offset as u64).to_le_bytes());
            offset += tensor.data.len().next_multiple_of(self.alignment);
        }
        for tensor in &self.tensors {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
            file.extend(&tensor.data);
        }
        file
    }
}
