use super::layers::Weights;
use super::*;

fn curve(count: usize, random: &mut Random) -> (Vec<Vec<f32>>, Vec<f32>) {
    let row = |_| -> Vec<f32> { (0..4).map(|_| 100.0 + 20.0 * random.normal() as f32).collect() };
    let rows: Vec<Vec<f32>> = (0..count).map(row).collect();
    let targets = rows.iter().map(|row| 7.0 + (row[0] / 20.0).sin() + row[1] / 30.0).collect();
    (rows, targets)
}

#[test]
fn gradients_are_those_of_the_loss() {
    let mut random = Random::new(1);
    let mut weights = Weights::random(3, &mut random);
    let inputs = [0.3, -1.0, 0.7];
    let output = |weights: &Weights| weights.pass(inputs.iter().copied()).output;
    let mut gradient = Weights::zeros(3);
    weights.pass_back(&inputs, &weights.pass(inputs.iter().copied()), 1.0, &mut gradient);
    for part in 0..6 {
        for place in [0, 5, 17] {
            let place = place % weights.parts()[part].len();
            let mut moved = |by: f32| {
                weights.parts()[part][place] += by;
                let output = output(&weights);
                weights.parts()[part][place] -= by;
                output
            };
            let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            let found = gradient.parts()[part][place];
            assert!((slope - found).abs() < 1e-3 + 1e-2 * slope.abs(), "{slope} {found}");
        }
    }
}

#[test]
fn a_smooth_function_is_learnt_and_kept_in_json() {
    let mut random = Random::new(2);
    let (rows, targets) = curve(600, &mut random);
    let fit =
        |seed| Network::fit(&rows, &targets, &NetworkOptions::default(), &mut Random::new(seed));
    let network = fit(1);
    let (unseen, truth) = curve(200, &mut random);
    let truth: Vec<f64> = truth.into_iter().map(f64::from).collect();
    let found: Vec<f64> = unseen.iter().map(|row| network.predict(row)).collect();
    let r2 = crate::scores::r2(&truth, &found);
    assert!(r2 > 0.97, "{r2}");
    assert!(network == fit(1) && network != fit(2));
    let text = serde_json::to_string(&network).unwrap();
    assert_eq!(serde_json::from_str::<Network>(&text).unwrap(), network);
}

#[test]
fn little_or_nothing_to_learn_from_is_no_accident() {
    let fit = |rows: &[Vec<f32>], targets: &[f32]| {
        let options = NetworkOptions { epochs: 5, ..NetworkOptions::default() };
        Network::fit(rows, targets, &options, &mut Random::new(1))
    };
    assert!(fit(&[], &[]).predict(&[1.0, 2.0]).is_finite());
    let constant = fit(&vec![vec![0.1, 1e9]; 30], &[0.7; 30]);
    assert!((constant.predict(&[5.0, 3.0]) - 0.7).abs() < 0.05);
    let ragged = fit(&[vec![1.0, 2.0], vec![2.0], vec![]], &[1.0, 2.0, 3.0]);
    assert!(ragged.predict(&[1.0]).is_finite() && ragged.predict(&[1e30; 9]).is_finite());
}
