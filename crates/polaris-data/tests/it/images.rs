//! Folders of images, written here as PNG and JPEG.

use std::path::Path;
use std::sync::Arc;

use image::{GrayImage, Luma, Rgb, RgbImage, RgbaImage};
use polaris_data::{
    Dataset, Error, ImageFolder, ImageOptions, Kind, Loader, LoaderOptions, Values,
};

fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for class in ["dog", "cat", ".hidden"] {
        std::fs::create_dir(root.path().join(class)).unwrap();
    }
    std::fs::write(root.path().join("notes.txt"), "no class").unwrap();
    std::fs::write(root.path().join("cat/notes.txt"), "no image").unwrap();
    root
}

fn read(data: &ImageFolder, index: usize) -> (Vec<f32>, i64) {
    let (mut input, mut target) = (Values::new(Kind::F32), Values::new(Kind::I64));
    data.append(index, &mut input, &mut target).unwrap();
    (input.as_f32().unwrap().to_vec(), target.as_i64().unwrap()[0])
}

fn close(a: &[f32], b: &[f32], by: f32) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= by), "{a:?} {b:?}");
}

#[test]
fn pixels_become_planes_of_normalised_channels() {
    let root = folder();
    let mut picture = RgbImage::new(2, 1);
    picture.put_pixel(0, 0, Rgb([255, 0, 51]));
    picture.put_pixel(1, 0, Rgb([0, 102, 204]));
    picture.save(root.path().join("cat/b.PNG")).unwrap();
    let mut see_through = RgbaImage::new(2, 1);
    see_through.put_pixel(0, 0, image::Rgba([255, 255, 255, 0]));
    see_through.save(root.path().join("dog/a.png")).unwrap();
    GrayImage::from_pixel(64, 48, Luma([51])).save(root.path().join("cat/c.jpeg")).unwrap();
    let mut options = ImageOptions::new(1, 2, 3);
    let data = ImageFolder::open(root.path(), options.clone()).unwrap();
    assert_eq!(data.classes(), ["cat", "dog"]);
    assert_eq!(data.input().dims, [3, 1, 2]);
    assert_eq!((0..3).map(|i| data.label(i).unwrap()).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(data.path(0).unwrap().ends_with("cat/b.PNG"));
    let (pixels, class) = read(&data, 0);
    assert_eq!(class, 0);
    close(&pixels, &[1.0, 0.0, 0.0, 0.4, 0.2, 0.8], 1e-6);
    // Shrunk, grey, lossy: still what it was.
    close(&read(&data, 1).0, &[0.2; 6], 0.01);
    close(&read(&data, 2).0, &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0], 1e-6);
    options.mean = vec![0.5, 0.0, 0.2];
    options.std = vec![0.5, 2.0, 0.1];
    let data = ImageFolder::open(root.path(), options).unwrap();
    close(&read(&data, 0).0, &[1.0, -1.0, 0.0, 0.2, 0.0, 6.0], 1e-5);
    let grey = ImageFolder::open(root.path(), ImageOptions::new(4, 4, 1)).unwrap();
    close(&read(&grey, 1).0, &[0.2; 16], 0.01);
    let given = ImageOptions {
        classes: Some(vec!["dog".into(), "bird".into(), "cat".into()]),
        ..ImageOptions::new(1, 1, 1)
    };
    let data = ImageFolder::open(root.path(), given).unwrap();
    assert_eq!((data.label(0), data.label(2)), (Some(2), Some(0)));
}

#[test]
fn resizing_averages() {
    let root = folder();
    let stripes = GrayImage::from_fn(8, 8, |x, _| Luma([if x % 2 == 0 { 0 } else { 255 }]));
    stripes.save(root.path().join("cat/a.png")).unwrap();
    stripes.save(root.path().join("dog/a.png")).unwrap();
    let data = ImageFolder::open(root.path(), ImageOptions::new(2, 2, 1)).unwrap();
    close(&read(&data, 0).0, &[0.5; 4], 0.1);
}

#[test]
fn a_broken_file_is_named() {
    let root = folder();
    let good = root.path().join("cat/a.png");
    GrayImage::new(4, 4).save(&good).unwrap();
    let whole = std::fs::read(&good).unwrap();
    for end in 0..whole.len() - 12 {
        std::fs::write(root.path().join("dog/broken.png"), &whole[..end]).unwrap();
        let data = Arc::new(ImageFolder::open(root.path(), ImageOptions::new(4, 4, 1)).unwrap());
        let loader = Loader::new(data, vec![0, 1], LoaderOptions::default()).unwrap();
        let error = loader.epoch(0, 0).next().unwrap().unwrap_err();
        assert!(error.to_string().contains("broken.png"), "{end}: {error}");
    }
}

#[test]
fn folders_without_what_is_needed() {
    let empty = tempfile::tempdir().unwrap();
    let options = ImageOptions::new(4, 4, 1);
    let open = |root: &Path, options: &ImageOptions| ImageFolder::open(root, options.clone());
    assert!(matches!(open(empty.path(), &options), Err(Error::Empty { .. })));
    let missing = empty.path().join("missing");
    assert!(matches!(open(&missing, &options), Err(Error::Io { .. })));
    let root = folder();
    let error = open(root.path(), &options).unwrap_err().to_string();
    assert!(error.contains("cat") && error.contains(".png"), "{error}");
    for bad in [
        ImageOptions::new(4, 4, 2),
        ImageOptions::new(0, 4, 1),
        ImageOptions::new(4, usize::MAX, 1),
        ImageOptions { mean: vec![0.0], ..ImageOptions::new(4, 4, 3) },
        ImageOptions { std: vec![0.0], ..ImageOptions::new(4, 4, 1) },
        ImageOptions { std: vec![f32::NAN], ..ImageOptions::new(4, 4, 1) },
    ] {
        assert!(matches!(open(root.path(), &bad), Err(Error::BadOption { .. })), "{bad:?}");
    }
    let given = ImageOptions { classes: Some(vec!["cats".into()]), ..options };
    GrayImage::new(1, 1).save(root.path().join("cat/a.png")).unwrap();
    let error = open(root.path(), &given).unwrap_err().to_string();
    assert!(error.contains("no class `cat`") && error.contains("mean `cats`"), "{error}");
}
