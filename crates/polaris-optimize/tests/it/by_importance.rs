//! Files whose errors count by importance.

use std::collections::BTreeMap;

use bytes::Bytes;
use polaris_core::random::SplitMix64;
use polaris_gguf::{Gguf, TensorType, Writer, quantize};
use polaris_optimize::{Error, Importance, PlanOptions, Recipe};

use crate::{draw, open, write};

/// Matrices, rows, columns.
const SHAPES: [(&str, [usize; 3]); 5] = [
    ("blk.0.attn_q.weight", [1, 24, 512]),
    ("blk.0.ffn_up_exps.weight", [3, 9, 256]),
    // Rows that end within a chunk.
    ("blk.0.ffn_down_exps.weight", [3, 7, 96]),
    ("blk.0.attn_k.weight", [1, 11, 160]),
    ("blk.0.attn_v.weight", [1, 4, 256]),
];
/// What the importance does not have.
const MISSING: &str = "blk.0.attn_v.weight";

fn model() -> Gguf {
    let mut random = SplitMix64::new(21);
    let mut writer = Writer::new();
    writer.set("general.architecture", "llama").unwrap();
    for (name, dims) in SHAPES {
        let values = draw(&mut random, dims.iter().product());
        let dims = if dims[0] == 1 { &dims[1..] } else { &dims[..] };
        writer
            .tensor(name, dims, TensorType::F32, quantize(TensorType::F32, &values).unwrap())
            .unwrap();
    }
    Gguf::from_bytes(writer.into_bytes().unwrap().into()).unwrap()
}

/// Mean squares of columns by name, matrix after matrix: a few of each matrix are far larger.
fn means() -> BTreeMap<&'static str, Vec<f32>> {
    let mut random = SplitMix64::new(3);
    let mut column = || if random.unit() < 0.06 { 40.0 } else { random.unit() as f32 + 0.01 };
    let all = SHAPES.iter().filter(|(name, _)| *name != MISSING);
    all.map(|(name, [matrices, _, columns])| {
        (*name, (0..matrices * columns).map(|_| column()).collect())
    })
    .collect()
}

fn importance(means: &BTreeMap<&str, Vec<f32>>) -> Importance {
    let mut writer = Writer::new();
    writer.set("general.type", "imatrix").unwrap();
    for (name, dims) in SHAPES {
        let Some(means) = means.get(name) else { continue };
        // Each matrix has seen another number of rows.
        let rows: Vec<f32> = (0..dims[0]).map(|matrix| 10.0 + matrix as f32).collect();
        let sums = means.chunks(dims[2]).zip(&rows);
        let sums: Vec<f32> =
            sums.flat_map(|(means, rows)| means.iter().map(move |mean| mean * rows)).collect();
        for (ending, values, dims) in
            [("in_sum2", &sums, [dims[0], dims[2]]), ("counts", &rows, [dims[0], 1])]
        {
            let bytes = quantize(TensorType::F32, values).unwrap();
            writer.tensor(&format!("{name}.{ending}"), &dims, TensorType::F32, bytes).unwrap();
        }
    }
    Importance::from_bytes(Bytes::from(writer.into_bytes().unwrap())).unwrap()
}

/// Squared errors by importance and squares by importance, for each matrix.
fn errors(before: &Gguf, after: &Gguf, name: &str, means: &[f32]) -> Vec<[f64; 2]> {
    let [matrices, rows, columns] = SHAPES.iter().find(|shape| shape.0 == name).unwrap().1;
    let [a, b] = [before, after].map(|gguf| gguf.tensor(name).unwrap().to_f32().unwrap());
    let matrix = |matrix: usize| {
        let mut sums = [0.0; 2];
        for at in 0..rows * columns {
            let by = f64::from(means[matrix * columns + at % columns]);
            let (a, b) = (a[matrix * rows * columns + at], b[matrix * rows * columns + at]);
            sums[0] += by * f64::from(a - b).powi(2);
            sums[1] += by * f64::from(a).powi(2);
        }
        sums
    };
    (0..matrices).map(matrix).collect()
}

fn options(recipe: Recipe, importance: Option<Importance>) -> PlanOptions {
    PlanOptions { recipe, importance, ..PlanOptions::default() }
}

#[test]
fn columns_that_count_for_more_come_nearer() {
    let (gguf, means) = (model(), means());
    // The same numbers, but those of other experts.
    let turned: BTreeMap<_, _> = means
        .iter()
        .map(|(name, means)| {
            let matrices = SHAPES.iter().find(|shape| shape.0 == *name).unwrap().1[0];
            let mut turned = means.clone();
            turned.rotate_left(means.len() / matrices);
            (*name, turned)
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let searched =
        |recipe: &Recipe| matches!(recipe.base(), TensorType::Block(block) if block.is_searched());
    for recipe in Recipe::ALL.into_iter().filter(searched) {
        let plain = write(&gguf, &options(recipe, None), &path("plain")).unwrap();
        assert!(plain.iter().all(|tensor| tensor.weighted_error.is_none()));
        let told = write(&gguf, &options(recipe, Some(importance(&means))), &path("best")).unwrap();
        write(&gguf, &options(recipe, Some(importance(&turned))), &path("turned")).unwrap();
        let [plain, best, turned] = ["plain", "best", "turned"].map(|name| open(&path(name)));
        for told in told {
            let name = told.name.as_str();
            assert_eq!(plain.tensor(name).unwrap().ty(), best.tensor(name).unwrap().ty());
            let is_searched = matches!(told.to, TensorType::Block(block) if block.is_searched());
            if name == MISSING || !is_searched {
                assert_eq!(plain.tensor(name).unwrap().data(), best.tensor(name).unwrap().data());
                assert!(told.weighted_error.is_none() && told.relative_error.is_some());
                continue;
            }
            let [before, after, other] =
                [&plain, &best, &turned].map(|file| errors(&gguf, file, name, &means[name]));
            for (matrix, (before, after)) in before.iter().zip(&after).enumerate() {
                assert!(
                    after[0] < 0.97 * before[0],
                    "{recipe}, {name} {matrix}: {after:?}, {before:?}"
                );
                if other.len() > 1 {
                    assert!(after[0] < 0.97 * other[matrix][0], "{recipe}, {name} {matrix}");
                }
            }
            let sum = |at: usize| after.iter().map(|sums| sums[at]).sum::<f64>();
            let expected = (sum(0) / sum(1)).sqrt();
            let found = told.weighted_error.unwrap();
            assert!((found / expected - 1.0).abs() < 1e-3, "{recipe}, {name}: {found}, {expected}");
        }
    }
}

#[test]
fn a_plan_says_what_counts_by_importance_and_refuses_that_of_others() {
    let (gguf, mut means) = (model(), means());
    let plan =
        |recipe, importance| polaris_optimize::Plan::new(&gguf, &options(recipe, Some(importance)));
    assert_eq!(plan(Recipe::Q4_0, importance(&means)).unwrap().by_importance(), [4, 1]);
    // Scales of 8 bits are not searched for.
    assert_eq!(plan(Recipe::Q8_0, importance(&means)).unwrap().by_importance(), [0, 0]);
    let columns = means.get_mut("blk.0.attn_k.weight").unwrap();
    columns.pop();
    let mut sums = Importance::default();
    for (name, means) in &means {
        let one = [(*name, means.clone())].into_iter().collect();
        if *name == "blk.0.attn_k.weight" {
            sums.merge(&legacy(name, means)).unwrap();
        } else {
            sums.merge(&importance(&one)).unwrap();
        }
    }
    let error = plan(Recipe::Q4_0, sums).unwrap_err();
    assert!(
        matches!(&error, Error::Columns { tensor, columns: 160, .. } if tensor == "blk.0.attn_k.weight"),
        "{error}"
    );
    let other = plan(Recipe::Q4_0, legacy("blk.9.attn_q.weight", &[1.0])).unwrap_err();
    assert!(
        matches!(&other, Error::OtherModel { .. }) && other.to_string().contains("blk.9"),
        "{other}"
    );
}

/// Importance of one tensor, by the older format.
fn legacy(name: &str, means: &[f32]) -> Importance {
    let mut bytes = 1i32.to_le_bytes().to_vec();
    bytes.extend((name.len() as i32).to_le_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend(1i32.to_le_bytes());
    bytes.extend((means.len() as i32).to_le_bytes());
    means.iter().for_each(|mean| bytes.extend(mean.to_le_bytes()));
    Importance::from_bytes(bytes.into()).unwrap()
}
