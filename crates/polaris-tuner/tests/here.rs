//! Tuning as a library, in the process of its caller.

use polaris_core::{CancellationToken, DType, Progress};
use polaris_runtime::machine::Paths;
use polaris_runtime::{Runtime, RuntimeOptions};
use polaris_testkit::is_required;
use polaris_tune::choices::Choices;
use polaris_tuner::{Budget, TuneOptions, list, problems, tune};

/// A runtime with a data folder of its own; nothing where there is no OpenCL device.
fn runtime(data: &std::path::Path) -> Option<Runtime> {
    let paths = Paths { data: Some(data.to_owned()), ..Paths::from_environment() };
    let runtime = Runtime::discover(&RuntimeOptions { paths, ..RuntimeOptions::default() });
    let runtime = runtime.expect("looking for devices without limits should not fail");
    if runtime.devices().len() == 1 {
        assert!(!is_required("opencl"), "POLARIS_REQUIRE asks for opencl");
        eprintln!("SKIPPED: tests on OpenCL, since there is no device");
        return None;
    }
    Some(runtime)
}

/// Counts what is said.
#[derive(Default)]
struct Counted {
    begun: usize,
    ended: usize,
}

impl Progress for Counted {
    fn begin(&mut self, _: &str, _: usize) {
        self.begun += 1;
    }

    fn end(&mut self) {
        self.ended += 1;
    }
}

#[test]
fn a_search_in_this_process_is_remembered_and_decided() {
    let data = tempfile::tempdir().unwrap();
    let Some(runtime) = runtime(data.path()) else { return };
    let device = &runtime.devices()[1];
    let options = TuneOptions {
        problems: problems::reductions(&[[3, 5000], [2, 64]], DType::F32),
        devices: vec![device.id()],
        strategy: "random".to_owned(),
        budget: Budget::Evaluations(2),
        ..TuneOptions::default()
    };
    let mut progress = Counted::default();
    let outcome = tune(&runtime, &options, &mut progress).unwrap();
    assert_eq!((progress.begun, progress.ended), (2, 2));
    assert!(!outcome.interrupted());
    for tuned in &outcome.tuned {
        assert_eq!((tuned.found.evaluations, tuned.found.resumed), (2, 0));
        assert!(tuned.found.best.seconds.is_finite() && tuned.found.default.seconds.is_finite());
        assert!(tuned.found.best.seconds <= tuned.found.default.seconds);
    }
    assert!(outcome.page().render().contains("reduce 3x5000 of f32"));
    let folder = polaris_tuner::tuning_folder(&runtime).unwrap();
    assert_eq!(list(&folder).unwrap().problems.len(), 2);
    let decided = || Choices::load(&Choices::file(&folder, &device.info().chip.key)).choices;
    let before = decided();
    assert_eq!(before.len(), 2);
    // The next search knows what was measured. What was decided stays where nothing is faster.
    let again = tune(&runtime, &options, &mut ()).unwrap();
    assert!(again.tuned.iter().all(|tuned| tuned.found.resumed == 2));
    let after = decided();
    for before in &before {
        // A faster one takes its place at another position of the list.
        let after = after.iter().find(|after| after.problem == before.problem);
        let is_kept = before.config.is_none() || after.is_some_and(|after| after.config.is_some());
        assert!(is_kept, "{before:?}, {after:?}");
    }
}

#[test]
fn a_cancelled_search_is_an_outcome_and_mistakes_are_errors() {
    let data = tempfile::tempdir().unwrap();
    let Some(runtime) = runtime(data.path()) else { return };
    let device = runtime.devices()[1].id();
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    let options = TuneOptions {
        problems: problems::reductions(&[[2, 64]], DType::F32),
        devices: vec![device],
        cancellation,
        ..TuneOptions::default()
    };
    let outcome = tune(&runtime, &options, &mut ()).unwrap();
    assert!(outcome.interrupted() && outcome.tuned[0].found.evaluations == 0);
    let options = TuneOptions { problems: Vec::new(), ..options };
    assert!(tune(&runtime, &options, &mut ()).is_err());
}
