//! After the first token, sampling allocates nothing. A binary of its own, since it replaces the allocator. It counts
//! for each thread: the test harness allocates on another thread meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use polaris_core::random::SplitMix64;
use polaris_sample::{Mask, Mirostat, Options, Sampler};

struct Counting;

thread_local! {
    // Constant and without a destructor, so that counting never allocates.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn only_the_first_token_allocates() {
    const SIZE: usize = 3000;
    let mut random = SplitMix64::new(1);
    let steps: Vec<Vec<f32>> =
        (0..40).map(|_| (0..SIZE).map(|_| random.unit() as f32 * 9.0).collect()).collect();
    let mut mask = Mask::none(SIZE);
    (0..SIZE as u32).step_by(3).for_each(|token| mask.allow(token));
    let all = Options {
        penalty_repeat: 1.1,
        dry_multiplier: 0.5,
        dry_breakers: vec![vec![1], vec![2, 3]],
        top_n_sigma: 3.0,
        typical_p: 0.98,
        xtc_probability: 0.5,
        dynamic_temperature_range: 0.2,
        logit_bias: vec![(3, 1.0)],
        ..Options::default()
    };
    let cases = [
        Options::default(),
        Options { temperature: 0.0, ..Options::default() },
        Options { top_k: 0, ..all.clone() },
        all,
        Options { mirostat: Mirostat::V1, ..Options::default() },
        Options { mirostat: Mirostat::V2, ..Options::default() },
    ];
    for options in cases {
        let mut sampler = Sampler::new(&options, SIZE).unwrap();
        let mut before = 0;
        for (step, logits) in steps.iter().enumerate() {
            if step == 1 {
                before = COUNT.get();
            }
            let token = match step % 2 {
                0 => sampler.sample(logits).unwrap(),
                _ => sampler.sample_masked(logits, &mask).unwrap(),
            };
            sampler.accept(token).unwrap();
        }
        assert_eq!(COUNT.get(), before, "{options:?}");
    }
}
