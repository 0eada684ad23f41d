//! Samples of a data set as inputs of a model: images in a folder, arrays, tables.
//!
//! | What | Which inputs | Labels |
//! |---|---|---|
//! | a folder of images, or of a folder for each class | one, `[N, 3, H, W]`, prepared as for `run --image`; `[N, 1, H, W]`: grey from 0 to 1 | the folders |
//! | `.npy` | the only one; the first dimension counts samples | |
//! | `.npz` | arrays of the inputs' names; of the only one also `x`, `inputs`, `images` or `arr_0` | `y`, `labels` or `targets` |
//! | `.csv`, `.csv.gz` with a header | the only one: all columns but the last | the last column |
//! | IDX (`images-idx3-ubyte`, `.gz`) | the only one; bytes from 0 to 1 | `labels-idx1-ubyte` beside it |
//! | `digits` | the only one: the digits that are built in | theirs |
//!
//! Numbers take the type and the shape of the input. Images and NPY files are read batch by batch.

use std::ops::Range;
use std::path::{Path, PathBuf};

use polaris_data::{
    ArrayDataset, ArrayOptions, CsvOptions, Dataset, NpyArray, NpySlices, Target, Values, digits,
    read_npz,
};
use polaris_onnx::{Dim, ElementType, Tensor, Type};

use crate::inputs::element;
use crate::{Error, Result};

/// Names of arrays that are labels.
const LABELS: [&str; 3] = ["y", "labels", "targets"];

/// Names of arrays for the only input of a model.
const ONLY: [&str; 4] = ["x", "inputs", "images", "arr_0"];

/// Names of classes that a model brings along, from its words about itself.
pub fn classes(metadata: &[(String, String)]) -> Option<Vec<String>> {
    let (_, text) = metadata.iter().find(|(key, _)| key == "classes")?;
    // As `polaris export` writes them; others have one a line.
    Some(serde_json::from_str(text).unwrap_or_else(|_| text.lines().map(str::to_owned).collect()))
}

/// Samples for the inputs of a model.
#[derive(Debug)]
pub struct Samples {
    path: PathBuf,
    inputs: Vec<(String, ElementType, Vec<Dim>)>,
    source: Source,
    len: usize,
    labels: Option<Vec<i64>>,
    /// Samples that the model takes at a time, if it is not free.
    batch: Option<usize>,
}

#[derive(Debug)]
enum Source {
    /// One for each input, with the samples along the first axis.
    Tensors(Vec<Tensor>),
    File(NpySlices),
    #[cfg(feature = "image")]
    Images(Vec<PathBuf>),
}

impl Samples {
    /// Opens a data set for inputs of a model. `classes` are the names of its classes, in their order, if it has some.
    ///
    /// # Errors
    /// If the data cannot be read, are empty, or do not fit the inputs.
    pub fn open(
        path: &Path,
        inputs: &[(&str, Option<&Type>)],
        classes: Option<&[String]>,
    ) -> Result<Self> {
        let wrong = |why: String| Error::file(path, why);
        let mut declared = Vec::new();
        for (name, ty) in inputs {
            match ty {
                Some(Type::Tensor(element, Some(dims))) if !dims.is_empty() => {
                    declared.push(((*name).to_owned(), *element, dims.clone()));
                }
                _ => return Err(Error::UndeclaredShape { input: (*name).to_owned() }),
            }
        }
        let fixed: Vec<usize> = declared.iter().filter_map(|(.., dims)| dims[0].known()).collect();
        let batch = fixed.first().copied();
        if declared.is_empty()
            || batch == Some(0)
            || fixed.iter().any(|&other| Some(other) != batch)
        {
            let shapes: Vec<String> = inputs
                .iter()
                .map(|(name, ty)| format!("`{name}` {}", ty.map_or(String::new(), Type::to_string)))
                .collect();
            let why = format!(
                "the first axis of the model's inputs does not count samples: {}",
                shapes.join(", ")
            );
            return Err(wrong(why));
        }
        let mut samples = Self {
            path: path.to_owned(),
            inputs: declared,
            source: Source::Tensors(Vec::new()),
            len: 0,
            labels: None,
            batch,
        };
        let name =
            path.file_name().map_or(String::new(), |name| name.to_string_lossy().to_lowercase());
        let ends = |ending: &str| name.ends_with(ending);
        if path.is_dir() {
            samples.images(classes)?;
        } else if path == Path::new("digits") && !path.exists() {
            samples.dataset(&digits()?)?;
        } else if ends(".npz") {
            samples.npz()?;
        } else if ends(".npy") || ends(".npy.gz") {
            samples.npy()?;
        } else if ends(".csv") || ends(".csv.gz") {
            samples.csv(classes)?;
        } else if name.contains("idx") {
            samples.idx()?;
        } else {
            let why = "it is none of a folder of images, .npy, .npz, .csv, IDX, and `digits`";
            return Err(wrong(why.to_owned()));
        }
        if samples.len == 0 {
            return Err(wrong("there are no samples in it".to_owned()));
        }
        if let Some(batch) = samples.batch.filter(|&batch| samples.len < batch) {
            let why =
                format!("it has {} samples, and the model takes {batch} at a time", samples.len);
            return Err(wrong(why));
        }
        // What does not fit is told now, and not after some minutes.
        samples.read(0..samples.batch.unwrap_or(1))?;
        Ok(samples)
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The classes of the samples, if they are known.
    pub fn labels(&self) -> Option<&[i64]> {
        self.labels.as_deref()
    }

    /// The fewest samples that the model takes.
    pub fn fewest(&self) -> usize {
        self.batch.unwrap_or(1)
    }

    /// The first samples: so many, or all.
    ///
    /// # Errors
    /// If the model takes more at a time.
    pub fn first(&self, count: usize) -> Result<Range<usize>> {
        if count < self.fewest() {
            let batch = self.fewest();
            let why =
                format!("{count} samples were asked for, and the model takes {batch} at a time");
            return Err(Error::file(&self.path, why));
        }
        Ok(0..count.min(self.len))
    }

    /// The samples of each batch of about so many; those behind the last whole one are left out where the model takes a fixed
    /// number.
    pub fn batches(&self, samples: Range<usize>, about: usize) -> Vec<Range<usize>> {
        let end = samples.end.min(self.len);
        let size = self.batch.unwrap_or(about.max(1));
        let starts = (samples.start..end).step_by(size);
        let whole = |batch: &Range<usize>| self.batch.is_none() || batch.len() == size;
        starts.map(|start| start..(start + size).min(end)).filter(whole).collect()
    }

    /// The inputs of some samples.
    ///
    /// # Errors
    /// If they cannot be read, or do not fit the model.
    pub fn read(&self, samples: Range<usize>) -> Result<Vec<(String, Tensor)>> {
        let count = samples.len();
        let of = |at: usize| -> Result<Tensor> {
            match &self.source {
                Source::Tensors(tensors) => rows(&tensors[at], samples.clone()),
                Source::File(file) => {
                    let mut dims = file.dims().to_vec();
                    dims[0] = count;
                    let element = element(file.code()).ok_or_else(|| {
                        Error::file(&self.path, format!("numbers of type {}", file.code()))
                    })?;
                    let bytes = file.read(samples.start, count)?;
                    Ok(Tensor::from_bytes(element, &dims, bytes.into())?)
                }
                #[cfg(feature = "image")]
                Source::Images(files) => {
                    let (name, element, dims) = &self.inputs[at];
                    images(&files[samples.clone()], name, *element, dims)
                }
            }
        };
        let fitted = |(at, (name, element, dims)): (usize, &(String, ElementType, Vec<Dim>))| {
            let tensor =
                fit(of(at)?, name, *element, dims).map_err(|why| Error::file(&self.path, why))?;
            Ok((name.clone(), tensor))
        };
        self.inputs.iter().enumerate().map(fitted).collect()
    }

    /// The only input, for data that have one.
    fn only(&self) -> Result<&(String, ElementType, Vec<Dim>)> {
        match self.inputs.as_slice() {
            [only] => Ok(only),
            all => {
                let names: Vec<&str> = all.iter().map(|(name, ..)| name.as_str()).collect();
                let why = format!(
                    "it has one input, and the model takes {}; name arrays so in an .npz",
                    names.join(", ")
                );
                Err(Error::file(&self.path, why))
            }
        }
    }

    fn npy(&mut self) -> Result<()> {
        self.only()?;
        let file = NpySlices::open(&self.path)?;
        self.len = file.dims()[0];
        self.source = Source::File(file);
        Ok(())
    }

    fn npz(&mut self) -> Result<()> {
        let single = self.inputs.len() == 1;
        let mut tensors = Vec::new();
        for (name, ..) in &self.inputs {
            let mut array = read_npz(&self.path, name);
            for other in ONLY.iter().filter(|_| single) {
                array = array.or_else(|error| read_npz(&self.path, other).map_err(|_| error));
            }
            tensors.push(tensor(array?)?);
        }
        let len = |tensor: &Tensor| tensor.shape().first().copied().unwrap_or(0);
        self.len = tensors.first().map_or(0, len);
        if let Some(other) = tensors.iter().find(|tensor| len(tensor) != self.len) {
            let why = format!("one array has {} samples, another one {}", self.len, len(other));
            return Err(Error::file(&self.path, why));
        }
        let labels = LABELS.iter().find_map(|name| read_npz(&self.path, name).ok());
        if let Some(labels) = labels {
            self.labels = Some(self.checked(labels.values)?);
        }
        self.source = Source::Tensors(tensors);
        Ok(())
    }

    fn csv(&mut self, classes: Option<&[String]>) -> Result<()> {
        self.only()?;
        let read = |target: Target| {
            let classes = classes.map(<[String]>::to_vec).filter(|_| target == Target::Class);
            let options = CsvOptions { target, classes, ..CsvOptions::default() };
            ArrayDataset::from_csv(&self.path, &options)
        };
        // Numbers are classes by themselves, whichever of them occur.
        let dataset = match classes {
            Some(_) => {
                read(Target::Class).or_else(|error| read(Target::Integers).map_err(|_| error))
            }
            None => read(Target::Integers).or_else(|_| read(Target::Class)),
        };
        self.dataset(&dataset?)
    }

    fn idx(&mut self) -> Result<()> {
        self.only()?;
        let name =
            self.path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let labels =
            name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1");
        if labels == name {
            let why = "the name of an IDX file of images should have `images` in it, and that of its labels `labels`";
            return Err(Error::file(&self.path, why));
        }
        let options = ArrayOptions { target: Target::Integers, ..ArrayOptions::default() };
        let dataset =
            ArrayDataset::from_idx(&self.path, self.path.with_file_name(labels), &options)?;
        self.dataset(&dataset)
    }

    fn dataset(&mut self, dataset: &ArrayDataset) -> Result<()> {
        self.only()?;
        let mut dims = vec![dataset.len()];
        dims.extend(&dataset.input().dims);
        let array = NpyArray { dims, values: dataset.inputs().clone() };
        self.len = dataset.len();
        self.source = Source::Tensors(vec![tensor(array)?]);
        if dataset.target().dims.iter().all(|&length| length == 1)
            && dataset.targets().as_i64().is_some()
        {
            self.labels = Some(self.checked(dataset.targets().clone())?);
        }
        Ok(())
    }

    fn checked(&self, labels: Values) -> Result<Vec<i64>> {
        let wrong = |why: String| Error::file(&self.path, why);
        let Values::I64(labels) = labels else {
            return Err(wrong("its labels are no whole numbers".to_owned()));
        };
        if labels.len() != self.len {
            return Err(wrong(format!("it has {} labels for {} samples", labels.len(), self.len)));
        }
        Ok(labels)
    }

    #[cfg(not(feature = "image"))]
    fn images(&mut self, _: Option<&[String]>) -> Result<()> {
        Err(Error::file(&self.path, "a folder; this build reads no images"))
    }

    #[cfg(feature = "image")]
    fn images(&mut self, classes: Option<&[String]>) -> Result<()> {
        self.only()?;
        let mut files = listed(&self.path)?;
        files.retain(|path| is_image(path));
        let mut labels = Vec::new();
        if files.is_empty() {
            let folders: Vec<PathBuf> =
                listed(&self.path)?.into_iter().filter(|path| path.is_dir()).collect();
            for (at, folder) in folders.iter().enumerate() {
                let name = folder
                    .file_name()
                    .map_or(String::new(), |name| name.to_string_lossy().into_owned());
                let class = match classes {
                    Some(classes) => {
                        classes.iter().position(|class| *class == name).ok_or_else(|| {
                            Error::file(
                                folder,
                                format!(
                                    "the model has no class `{name}`; it has {}",
                                    classes.join(", ")
                                ),
                            )
                        })?
                    }
                    None => at,
                };
                let of_class = listed(folder)?.into_iter().filter(|path| is_image(path));
                let before = files.len();
                files.extend(of_class);
                labels.resize(labels.len() + files.len() - before, class as i64);
            }
        }
        self.len = files.len();
        self.labels = Some(labels).filter(|labels| !labels.is_empty());
        self.source = Source::Images(files);
        Ok(())
    }
}

#[cfg(feature = "image")]
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::Io { path: folder.to_owned(), cause };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(feature = "image")]
fn is_image(path: &Path) -> bool {
    const KNOWN: [&str; 10] =
        ["png", "jpg", "jpeg", "bmp", "tif", "tiff", "webp", "pgm", "ppm", "pnm"];
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| KNOWN.contains(&ending.as_str())) && !path.is_dir()
}

/// Pictures for an input, one after the other.
#[cfg(feature = "image")]
fn images(files: &[PathBuf], name: &str, element: ElementType, dims: &[Dim]) -> Result<Tensor> {
    let mut one = dims.to_vec();
    one[0] = Dim::Known(1);
    let mut values: Vec<f32> = Vec::new();
    let mut shape = Vec::new();
    for path in files {
        let grey = matches!(dims, [_, Dim::Known(1), Dim::Known(_), Dim::Known(_)]);
        let tensor = match grey {
            true => grey_image(path, &one)?,
            false => {
                let ty = Type::Tensor(element, Some(one.clone()));
                crate::classify::read_image(path, Some(&ty), name)?
            }
        };
        shape = tensor.shape().to_vec();
        values.extend_from_slice(&tensor.values::<f32>()?);
    }
    if let Some(first) = shape.first_mut() {
        *first = files.len();
    }
    Ok(Tensor::new(&shape, values)?)
}

/// A picture of one channel, from 0 to 1.
#[cfg(feature = "image")]
fn grey_image(path: &Path, dims: &[Dim]) -> Result<Tensor> {
    let side = |at: usize| dims[at].known().and_then(|side| u32::try_from(side).ok()).unwrap_or(0);
    let (height, width) = (side(2), side(3));
    let mut picture = polaris_data::read_image(path)?;
    if (picture.width(), picture.height()) != (width, height) {
        picture = picture.resize_exact(width, height, image::imageops::FilterType::Triangle);
    }
    let values = picture.to_luma32f().into_raw();
    Ok(Tensor::new(&[1, 1, height as usize, width as usize], values)?)
}

fn tensor(array: NpyArray) -> Result<Tensor> {
    Ok(match array.values {
        Values::F32(values) => Tensor::new(&array.dims, values)?,
        Values::I64(values) => Tensor::new(&array.dims, values)?,
    })
}

/// Some of the rows of a tensor.
fn rows(tensor: &Tensor, rows: Range<usize>) -> Result<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let row = tensor.bytes()?.len() / shape[0].max(1);
    shape[0] = rows.len();
    let bytes = tensor.bytes()?.slice(rows.start * row..rows.end * row);
    Ok(Tensor::from_bytes(tensor.element(), &shape, bytes)?)
}

/// Samples in the type and the shape of an input.
fn fit(
    tensor: Tensor,
    name: &str,
    element: ElementType,
    dims: &[Dim],
) -> std::result::Result<Tensor, String> {
    let found = tensor.shape().to_vec();
    let ty = Type::Tensor(element, Some(dims.to_vec()));
    let misfit =
        || format!("samples of {:?} do not fit the input `{name}`, which is {ty}", &found[1..]);
    let known: Option<Vec<usize>> = dims[1..].iter().map(Dim::known).collect();
    let shape = match known {
        // A row of numbers may be an image.
        Some(known) => [&found[..1], &known].concat(),
        None if found.len() == dims.len() => found.clone(),
        None => return Err(misfit()),
    };
    let fits = dims
        .iter()
        .zip(&shape)
        .skip(1)
        .all(|(dim, length)| dim.known().is_none_or(|known| known == *length));
    if !fits || shape.iter().product::<usize>() != tensor.elements() {
        return Err(misfit());
    }
    let tensor = tensor.reshaped(&shape).map_err(|error| error.to_string())?;
    if tensor.element() == element {
        return Ok(tensor);
    }
    let values = tensor.to_f64().map_err(|error| error.to_string())?;
    Tensor::from_f64(element, &shape, &values).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use polaris_data::npy_file;

    use super::*;

    fn f32s(dims: &[&str]) -> Type {
        Type::tensor(ElementType::F32, dims)
    }

    fn open(path: &Path, dims: &[&str]) -> Result<Samples> {
        Samples::open(path, &[("x", Some(&f32s(dims)))], None)
    }

    fn values(samples: &Samples, range: Range<usize>) -> (Vec<usize>, Vec<f64>) {
        let (_, tensor) = samples.read(range).unwrap().swap_remove(0);
        (tensor.shape().to_vec(), tensor.to_f64().unwrap())
    }

    #[test]
    fn rows_become_what_the_input_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.npy");
        let bytes: Vec<u8> = (0..5 * 4).collect();
        std::fs::write(&path, npy_file("u1", &[5, 4], &bytes)).unwrap();
        let samples = open(&path, &["n", "1", "2", "2"]).unwrap();
        assert_eq!((samples.len(), samples.labels()), (5, None));
        assert_eq!(values(&samples, 1..3), (vec![2, 1, 2, 2], (4..12).map(f64::from).collect()));
        assert_eq!(samples.batches(1..9, 2), [1..3, 3..5]);
        assert_eq!(samples.batches(0..5, 2), [0..2, 2..4, 4..5]);
        // A fixed number of samples leaves out those behind the last whole batch.
        let fixed = open(&path, &["2", "4"]).unwrap();
        assert_eq!(fixed.batches(0..5, 16), [0..2, 2..4]);
        assert_eq!((fixed.first(2).unwrap(), fixed.first(9).unwrap()), (0..2, 0..5));
        let error = fixed.first(1).unwrap_err().to_string();
        assert!(
            error.contains("1 samples were asked for") && error.contains("2 at a time"),
            "{error}"
        );
        for (dims, part) in [
            (&["n", "5"][..], "do not fit"),
            (&["8", "4"], "8 at a time"),
            (&["n", "?", "2"], "do not fit"),
        ] {
            let error = open(&path, dims).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(matches!(
            Samples::open(&path, &[("x", None)], None),
            Err(Error::UndeclaredShape { .. })
        ));
        let (x, y) = (f32s(&["n", "4"]), f32s(&["n"]));
        let two = [("x", Some(&x)), ("y", Some(&y))];
        let error = Samples::open(&path, &two, None).unwrap_err().to_string();
        assert!(error.contains("x, y") && error.contains(".npz"), "{error}");
    }

    #[test]
    fn tables_have_labels_in_their_last_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "a,b,class\n1,2,7\n3,4,5\n").unwrap();
        let samples = open(&path, &["n", "2"]).unwrap();
        assert_eq!(samples.labels(), Some(&[7, 5][..]));
        assert_eq!(values(&samples, 0..2), (vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]));
        // Names are those of the model's classes.
        std::fs::write(&path, "a,b,class\n1,2,dog\n3,4,cat\n").unwrap();
        let classes = ["bird", "cat", "dog"].map(str::to_owned);
        let ty = f32s(&["n", "2"]);
        let samples = Samples::open(&path, &[("x", Some(&ty))], Some(&classes)).unwrap();
        assert_eq!(samples.labels(), Some(&[2, 1][..]));
    }

    #[test]
    fn digits_are_built_in() {
        let samples = open(Path::new("digits"), &["n", "1", "8", "8"]).unwrap();
        assert_eq!(
            (samples.len(), samples.labels().map(|labels| labels[..4].to_vec())),
            (1797, Some(vec![0, 1, 2, 3]))
        );
        assert!(
            open(Path::new("nothing.xyz"), &["n", "4"]).unwrap_err().to_string().contains(".npz")
        );
    }

    #[cfg(feature = "image")]
    #[test]
    fn folders_of_images_are_classes() {
        let folder = tempfile::tempdir().unwrap();
        for (class, level) in [("dark", 0u8), ("light", 255)] {
            std::fs::create_dir(folder.path().join(class)).unwrap();
            for number in 0..2 {
                let path = folder.path().join(class).join(format!("{number}.pgm"));
                std::fs::write(path, [b"P5\n2 2\n255\n".as_slice(), &[level; 4]].concat()).unwrap();
            }
        }
        let samples = open(folder.path(), &["n", "1", "4", "4"]).unwrap();
        assert_eq!(samples.labels(), Some(&[0, 0, 1, 1][..]));
        let (shape, read) = values(&samples, 1..3);
        assert_eq!(shape, [2, 1, 4, 4]);
        assert!(read[..16].iter().all(|&x| x == 0.0) && read[16..].iter().all(|&x| x == 1.0));
        // As for the command `run`.
        let coloured = open(folder.path(), &["n", "3", "4", "4"]).unwrap();
        let (shape, read) = values(&coloured, 2..3);
        assert_eq!(shape, [1, 3, 4, 4]);
        assert!((read[0] - (1.0 - 0.485) / 0.229).abs() < 1e-6, "{read:?}");
        let ty = f32s(&["n", "1", "4", "4"]);
        let input = [("x", Some(&ty))];
        let classes = ["cat".to_owned()];
        let error = Samples::open(folder.path(), &input, Some(&classes)).unwrap_err().to_string();
        assert!(error.contains("no class `dark`"), "{error}");
        let plain = folder.path().join("dark");
        assert_eq!(open(&plain, &["n", "1", "4", "4"]).unwrap().labels(), None);
    }
}
