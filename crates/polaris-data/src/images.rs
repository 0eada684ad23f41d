//! Folders of images: one folder per class, PNG and JPEG, read when they are needed.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use crate::{Dataset, Error, Kind, Result, Spec, Values, files, memory, names};

/// How images become inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// The height all images are resized to.
    pub height: usize,
    /// The width all images are resized to.
    pub width: usize,
    /// 1 for shades of grey, 3 for red, green and blue.
    pub channels: usize,
    /// What is subtracted from each channel, once it is scaled to 0..1; empty for 0.
    pub mean: Vec<f32>,
    /// What each channel is then divided by; empty for 1.
    pub std: Vec<f32>,
    /// The classes, in order; by default all folders, sorted. Give those of the training data
    /// when reading test data.
    pub classes: Option<Vec<String>>,
}

impl ImageOptions {
    /// Images of this size, in colour if `channels` is 3, scaled to 0..1.
    pub fn new(height: usize, width: usize, channels: usize) -> Self {
        ImageOptions { height, width, channels, mean: vec![], std: vec![], classes: None }
    }

    /// Brings everything into one form: a mean and a deviation for each channel.
    fn checked(mut self) -> Result<Self> {
        let bad = |option, value: String, reason: &str| {
            Err(Error::BadOption { option, value, reason: reason.into() })
        };
        if self.channels != 1 && self.channels != 3 {
            return bad("channels", self.channels.to_string(), "it must be 1 (grey) or 3 (colour)");
        }
        // The image crate counts pixels by 32 bits, and resizing holds them as four floats each.
        let most = 1 << 16;
        if !(1..=most).contains(&self.height) || !(1..=most).contains(&self.width) {
            let size = format!("{}x{}", self.height, self.width);
            return bad("height x width", size, "both must be from 1 to 65536");
        }
        for (option, values, default) in
            [("mean", &mut self.mean, 0.0), ("std", &mut self.std, 1.0)]
        {
            if values.is_empty() {
                values.resize(self.channels, default);
            }
            if values.len() != self.channels || values.iter().any(|x| !x.is_finite()) {
                let value = format!("{values:?}");
                return bad(option, value, "give one finite number for each channel, or none");
            }
        }
        if self.std.contains(&0.0) {
            let value = format!("{:?}", self.std);
            return bad("std", value, "pixels are divided by it; it must not be 0");
        }
        Ok(self)
    }
}

/// Images in folders named by their class. Only the names are held in memory; an image is read when it is requested,
/// on the loader's thread.
#[derive(Debug, Clone)]
pub struct ImageFolder {
    files: Vec<(PathBuf, usize)>,
    classes: Vec<String>,
    input: Spec,
    target: Spec,
    options: ImageOptions,
}

impl ImageFolder {
    /// Lists the `.png`, `.jpg` and `.jpeg` files of each folder in `root`. Files of other kinds
    /// and folders whose names start with a dot are passed over.
    pub fn open(root: impl AsRef<Path>, options: ImageOptions) -> Result<Self> {
        let root = root.as_ref();
        let options = options.checked()?;
        let mut folders = Vec::new();
        for path in list(root)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') {
                folders.push((name, path));
            }
        }
        let found: Vec<String> = folders.iter().map(|(name, _)| name.clone()).collect();
        if found.is_empty() {
            let reason = "it should have a folder for each class, and has none".into();
            return Err(Error::Empty { path: root.into(), reason });
        }
        let classes = options.classes.clone().unwrap_or_else(|| found.clone());
        let mut files = Vec::new();
        for (name, folder) in &folders {
            let class = names::find(root, "class", &classes, name)?;
            let before = files.len();
            files.extend(list(folder)?.into_iter().filter(|p| is_image(p)).map(|p| (p, class)));
            if files.len() == before {
                return Err(Error::Empty {
                    path: folder.clone(),
                    reason: "there is no .png, .jpg or .jpeg file in this class's folder; add \
                             some, or remove the folder"
                        .into(),
                });
            }
        }
        let input = Spec::new([options.channels, options.height, options.width], Kind::F32);
        input.elements()?;
        Ok(ImageFolder { files, classes, input, target: Spec::new([], Kind::I64), options })
    }

    /// The file of an example.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.files.get(index).map(|(path, _)| path.as_path())
    }
}

/// What is in a folder, sorted, so that indices do not depend on the file system.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(files::io(folder, "list"))? {
        paths.push(entry.map_err(files::io(folder, "list"))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let known = ["png", "jpg", "jpeg"];
    path.extension().is_some_and(|e| known.iter().any(|k| e.eq_ignore_ascii_case(k)))
        && !path.is_dir()
}

/// Reads an image, upright as its EXIF data say.
///
/// # Errors
/// If it is not a regular file, no image, or one that claims more pixels than there is memory for.
pub fn read_image(path: &Path) -> Result<DynamicImage> {
    // A picture of 512 MiB is larger than any camera's; more is a trap or a mistake.
    const MOST_BYTES: u64 = 512 << 20;
    let refused =
        |reason: String| Error::Format { path: path.into(), format: "PNG or JPEG", reason };
    let bad = |e: image::ImageError| refused(e.to_string());
    let (file, _) = polaris_files::open(path).map_err(files::io(path, "open"))?;
    let mut reader = ImageReader::new(BufReader::new(file))
        .with_guessed_format()
        .map_err(files::io(path, "read"))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(bad)?;
    // The limits above are for what decoders need besides; the pixels themselves are claimed by a few bytes.
    let ((width, height), bytes) = (decoder.dimensions(), decoder.total_bytes());
    if bytes > MOST_BYTES {
        return Err(refused(format!(
            "it claims {width} x {height} pixels, which are {bytes} bytes; at most {MOST_BYTES} are read"
        )));
    }
    // Decoding, turning and resizing hold some copies at a time.
    memory::require(4 * bytes)
        .map_err(|why| refused(format!("{width} x {height} pixels: {why}")))?;
    let orientation = decoder.orientation().map_err(bad)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(bad)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

impl Dataset for ImageFolder {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn input(&self) -> &Spec {
        &self.input
    }

    fn target(&self) -> &Spec {
        &self.target
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> Option<usize> {
        self.files.get(index).map(|(_, class)| *class)
    }

    fn append(&self, index: usize, input: &mut Values, target: &mut Values) -> Result<()> {
        let (path, class) =
            self.files.get(index).ok_or(Error::IndexOutOfRange { index, len: self.files.len() })?;
        let (Values::F32(input), Values::I64(target)) = (input, target) else {
            return Err(Error::KindMismatch {
                what: "inputs (f32) and targets (i64) to append to".into(),
                expected: Kind::F32,
                found: Kind::I64,
            });
        };
        let options = &self.options;
        let mut picture = read_image(path)?;
        let resized =
            16 * options.height as u64 * u64::from(picture.width()).max(options.width as u64);
        let what = || format!("{} at {}x{}", path.display(), options.height, options.width);
        memory::require(2 * resized).map_err(|reason| Error::NoMemory { what: what(), reason })?;
        let (width, height) = (options.width as u32, options.height as u32);
        if (picture.width(), picture.height()) != (width, height) {
            // Triangle weights over all pixels that fall into one: no aliasing when it shrinks.
            picture = picture.resize_exact(width, height, FilterType::Triangle);
        }
        let pixels = match options.channels {
            1 => picture.to_luma32f().into_raw(),
            _ => picture.into_rgb32f().into_raw(),
        };
        // Files have the channels side by side, networks one plane after the other.
        for (channel, (mean, std)) in options.mean.iter().zip(&options.std).enumerate() {
            let plane = pixels.iter().skip(channel).step_by(options.channels);
            input.extend(plane.map(|x| (x - mean) / std));
        }
        target.push(*class as i64);
        Ok(())
    }
}
