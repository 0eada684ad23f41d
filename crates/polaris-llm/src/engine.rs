//! Runs a model: sequences of tokens in, logits out.

use std::collections::HashMap;
use std::sync::Arc;

use polaris_ops::Array;
use polaris_ops::matmul::Precision;
use polaris_sample::Pieces;

use crate::cache::{Cache, Sequence};
use crate::cache_type::CacheType;
use crate::config::Config;
use crate::inputs::{Inputs, Item};
use crate::model::Model;
use crate::observe::{Observe, Watch};
use crate::plan::{Arena, Builder, Plan, Size, plan};
use crate::profile::{Profile, StepTime, TimedStep};
use crate::speculate::Costs;
use crate::{Error, Result};

/// Plans that are kept, those that were used last: prompts differ in size, single tokens and the batches of speculative
/// decoding have nine sizes at most.
const MOST_PLANS: usize = 16;

/// How a model is run.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Tokens of all sequences together; 0 for the context of training, at most 4096.
    pub context: usize,
    /// Tokens that are computed at once.
    pub batch: usize,
    /// Sequences at the same time.
    pub sequences: usize,
    /// The type of cached keys and values.
    pub cache: CacheType,
    /// How activations are multiplied with quantised weights: rounded to bytes where that is faster, or as they are.
    pub precision: Precision,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            context: 0,
            batch: 512,
            sequences: 1,
            cache: CacheType::F16,
            precision: Precision::Int8,
        }
    }
}

/// A context without a word of the user is at most this long: a model of 128k would take gigabytes.
const DEFAULT_CONTEXT: usize = 4096;

/// The context for what the caller asks; 0 for the default.
pub(crate) fn context(config: &Config, asked: usize) -> usize {
    if asked == 0 { config.context.min(DEFAULT_CONTEXT) } else { asked }
}

/// A model with its cache and plans. Sequences are numbered from 0.
#[derive(Debug)]
pub struct Engine {
    model: Model,
    cache: Cache,
    inputs: Inputs,
    sequences: Vec<Sequence>,
    plans: HashMap<Size, Kept>,
    /// Counts runs, to know which plan was used last.
    runs: u64,
    arena: Arena,
    precision: Precision,
    context: usize,
    batch: usize,
    /// Tokens that were computed so far.
    computed: usize,
    logits: Vec<f32>,
    profile: Option<Profile>,
    /// The bytes of tokens, once a grammar has asked for them.
    pub(crate) pieces: Option<Arc<Pieces>>,
    /// What batches of few tokens take, for speculative decoding.
    pub(crate) costs: Costs,
    /// The draft model of speculative decoding.
    pub(crate) draft: Option<Box<Engine>>,
}

/// A plan, the logits that it computes, and the run that used it last.
#[derive(Debug)]
struct Kept {
    plan: Plan,
    logits: Option<Array>,
    used: u64,
}

/// Which logits are wanted of tokens that are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those after the last token.
    Last,
    /// Those after each token.
    All,
    /// None.
    None,
}

impl Engine {
    /// Makes room for a context.
    ///
    /// # Errors
    /// If it does not fit the device; the error says what would. If the model's heads are not whole blocks of the
    /// cache's type.
    pub fn new(model: &Model, options: &EngineOptions) -> Result<Self> {
        let config = model.config();
        let context = self::context(config, options.context);
        if let Some(table) = model.weights().find("position_embd.weight")
            && context > table.shape()[0]
        {
            let rows = table.shape()[0];
            let what = format!("a context of {context} tokens; the model has {rows} positions");
            return Err(Error::Argument { what });
        }
        // Tokens that see each other are computed together.
        let batch = if config.causal { options.batch.clamp(1, context) } else { context };
        if let Some(chosen) = config.chosen_positions.filter(|&chosen| context > chosen) {
            log::warn!(
                "beyond {chosen} tokens the model looks at chosen ones only; here it looks at all"
            );
        }
        let sequences = options.sequences.max(1);
        options.cache.check(config)?;
        let per_token = Cache::bytes_per_token(config, options.cache);
        let device = model.device();
        let memory = device.allocator().memory_use();
        let free = memory.limit.saturating_sub(memory.used);
        let states = config.state_bytes().saturating_mul(sequences as u64);
        let needed = per_token.saturating_mul(context as u64).saturating_add(states);
        if needed > free {
            let fitting = (free.saturating_sub(states) / per_token.max(1)) as usize;
            return Err(Error::ContextTooLarge {
                context,
                needed,
                device: device.id().to_string(),
                free,
                fitting,
            });
        }
        let cache = Cache::new(device, config, options.cache, context, sequences)?;
        let inputs = Inputs::new(device, config, batch, sequences, cache.capacity())?;
        Ok(Self {
            model: model.clone(),
            cache,
            inputs,
            sequences: vec![Sequence::default(); sequences],
            plans: HashMap::new(),
            runs: 0,
            arena: Arena::default(),
            precision: options.precision,
            context,
            batch,
            computed: 0,
            logits: Vec::new(),
            profile: None,
            pieces: None,
            costs: Costs::default(),
            draft: None,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Tokens that fit.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Sequences that it has room for.
    pub(crate) fn sequences(&self) -> usize {
        self.sequences.len()
    }

    /// Tokens that were computed since it was made; what a reused prefix saves is not among them.
    pub fn computed(&self) -> usize {
        self.computed
    }

    /// The tokens of a sequence that are in the cache; none if there is no such sequence.
    pub fn tokens(&self, sequence: usize) -> &[u32] {
        self.sequences.get(sequence).map_or(&[], |sequence| &sequence.tokens)
    }

    /// Forgets the tokens of a sequence from some position on. A recurrent model forgets all of them: its states cannot
    /// be taken back to an earlier token.
    pub fn truncate(&mut self, sequence: usize, tokens: usize) {
        let is_recurrent = self.model.config().is_recurrent();
        if let Some(sequence) = self.sequences.get_mut(sequence) {
            let kept = match is_recurrent && tokens < sequence.tokens.len() {
                true => 0,
                false => tokens,
            };
            self.cache.truncate(sequence, kept);
        }
    }

    /// Keeps the tokens that a sequence has in common with `tokens`, but for the last of these, whose logits are to be
    /// computed; forgets the others. A recurrent model keeps all or none. Returns how many are kept.
    pub fn reuse(&mut self, sequence: usize, tokens: &[u32]) -> usize {
        let cached = self.tokens(sequence);
        let common = cached.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let kept = common.min(tokens.len().saturating_sub(1));
        self.truncate(sequence, kept);
        self.tokens(sequence).len()
    }

    /// Appends tokens to a sequence and computes them. The logits that are wanted are in rows, one for each token.
    /// Models that are not [causal](Config::causal) see the tokens of one call alone: the sequence begins anew.
    ///
    /// # Errors
    /// If a token is unknown, the context is full, or the device fails. The sequence is then what it was before; of a
    /// recurrent model that had begun to compute, it is empty.
    pub fn feed(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        wanted: Wanted,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[f32]> {
        self.feed_to(sequence, tokens, wanted, None, is_cancelled)
    }

    /// As [`Engine::feed`], and shows an observer what is multiplied with the matrices of the model. That is all tokens for
    /// all matrices if all logits are wanted; else the last layer leaves out tokens whose logits are not. With
    /// [`Precision::Full`] rows are those of the model as it is, whatever its weights are stored in; with
    /// [`Precision::Int8`] they have what earlier steps rounded.
    ///
    /// # Errors
    /// As for [`Engine::feed`], and if the model is not on the CPU: other devices compute several steps at once.
    pub fn feed_observed(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        wanted: Wanted,
        observer: &mut dyn Observe,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[f32]> {
        if self.model.device().as_cpu().is_none() {
            let device = self.model.device().id();
            let what = format!("activations of a model on {device}; the CPU shows them");
            return Err(Error::Argument { what });
        }
        self.feed_to(sequence, tokens, wanted, Some(observer), is_cancelled)
    }

    fn feed_to(
        &mut self,
        sequence: usize,
        tokens: &[u32],
        wanted: Wanted,
        mut observer: Option<&mut dyn Observe>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[f32]> {
        if !self.model.config().causal {
            self.truncate(sequence, 0);
        }
        self.check(sequence, tokens)?;
        let before = self.sequences[sequence].tokens.len();
        self.logits.clear();
        let mut done = 0;
        while done < tokens.len() {
            let count = self.batch.min(tokens.len() - done);
            let is_last = done + count == tokens.len();
            let item = |place: usize| Item {
                token: tokens[done + place],
                sequence: 0,
                position: before + done + place,
                wants_logits: match wanted {
                    Wanted::All => true,
                    Wanted::Last => is_last && place + 1 == count,
                    Wanted::None => false,
                },
            };
            let items: Vec<Item> = (0..count).map(item).collect();
            let observer: Option<&mut dyn Observe> = match &mut observer {
                Some(observer) => Some(&mut **observer),
                None => None,
            };
            let result = self.run(&[sequence], &items, observer, is_cancelled);
            if let Err(error) = result {
                self.truncate(sequence, before);
                return Err(error);
            }
            done += count;
        }
        Ok(&self.logits)
    }

    /// One token for each of some sequences; a row of logits for each.
    ///
    /// # Errors
    /// As for [`Engine::feed`].
    pub fn step(
        &mut self,
        tokens: &[(usize, u32)],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&[f32]> {
        self.require_causal()?;
        if tokens.len() > self.batch {
            let what =
                format!("{} sequences at once; at most {} fit a batch", tokens.len(), self.batch);
            return Err(Error::Argument { what });
        }
        let mut items = Vec::with_capacity(tokens.len());
        for (place, &(sequence, token)) in tokens.iter().enumerate() {
            self.check(sequence, &[token])?;
            if tokens[..place].iter().any(|&(other, _)| other == sequence) {
                let what = format!("sequence {sequence} is there twice");
                return Err(Error::Argument { what });
            }
            let position = self.sequences[sequence].tokens.len();
            items.push(Item { token, sequence: place, position, wants_logits: true });
        }
        let numbers: Vec<usize> = tokens.iter().map(|&(sequence, _)| sequence).collect();
        self.logits.clear();
        if let Err(error) = self.run(&numbers, &items, None, is_cancelled) {
            for number in numbers {
                // Gives back blocks that the step took.
                self.truncate(number, self.sequences[number].tokens.len());
            }
            return Err(error);
        }
        Ok(&self.logits)
    }

    /// That tokens depend on those before them alone, so that a text can be continued.
    ///
    /// # Errors
    /// If it is not so.
    pub(crate) fn require_causal(&self) -> Result<()> {
        let config = self.model.config();
        match config.causal {
            true => Ok(()),
            false => Err(Error::NotAutoregressive { name: config.architecture.name }),
        }
    }

    /// Whether the model knows all of these.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        let vocabulary = self.model.vocabulary();
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            let what = format!("the token {token} is unknown; the model has {vocabulary}");
            return Err(Error::Argument { what });
        }
        Ok(())
    }

    fn check(&self, sequence: usize, tokens: &[u32]) -> Result<()> {
        self.check_tokens(tokens)?;
        let Some(there) = self.sequences.get(sequence) else {
            let count = self.sequences.len();
            return Err(Error::Argument {
                what: format!("there is no sequence {sequence} of {count}"),
            });
        };
        let needed = there.tokens.len() + tokens.len();
        match needed > self.context {
            true => Err(Error::ContextFull { tokens: needed, context: self.context }),
            false => Ok(()),
        }
    }

    /// Computes a batch of tokens of some sequences, and appends the wanted logits.
    fn run(
        &mut self,
        numbers: &[usize],
        items: &[Item],
        observer: Option<&mut dyn Observe>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        for item in items {
            let sequence = &mut self.sequences[numbers[item.sequence]];
            self.cache.grow(sequence, item.position + 1)?;
        }
        let sequences: Vec<&Sequence> =
            numbers.iter().map(|&number| &self.sequences[number]).collect();
        self.inputs.write(self.model.config(), items, &sequences, numbers)?;
        let outputs = items.iter().filter(|item| item.wants_logits).count();
        let is_recurrent = self.model.config().is_recurrent();
        // Others have the same plan for any number of sequences.
        let count = if is_recurrent { numbers.len() } else { 1 };
        let size = Size { tokens: items.len(), outputs, sequences: count };
        let longest = items.iter().map(|item| item.position + 1).max().unwrap_or(0);
        self.prepare(size)?;
        if let Err(error) = self.compute(size, longest, observer, is_cancelled) {
            if is_recurrent {
                // Some layers may have gone on, and others not.
                numbers.iter().for_each(|&number| self.truncate(number, 0));
            }
            return Err(error);
        }
        for item in items {
            self.sequences[numbers[item.sequence]].tokens.push(item.token);
        }
        self.computed += items.len();
        Ok(())
    }

    /// Runs a plan, and appends the logits that it computes.
    fn compute(
        &mut self,
        size: Size,
        longest: usize,
        observer: Option<&mut dyn Observe>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let Kept { plan, logits, .. } = &self.plans[&size];
        let watch = observer.map(|observer| Watch::new(self.model.weights(), observer));
        plan.run(longest, is_cancelled, self.profile.as_mut(), watch)?;
        if let Some(logits) = logits {
            let start = self.logits.len();
            self.logits.resize(start + logits.elements(), 0.0);
            let offset = logits.layout().offset();
            let rows = logits.buffer().view(offset..offset + logits.elements())?;
            rows.read_into(&mut self.logits[start..])?;
        }
        Ok(())
    }

    /// Makes the plan of a size if there is none.
    fn prepare(&mut self, size: Size) -> Result<()> {
        self.runs += 1;
        if let Some(kept) = self.plans.get_mut(&size) {
            kept.used = self.runs;
            return Ok(());
        }
        if self.plans.len() >= MOST_PLANS
            && let Some((&oldest, _)) = self.plans.iter().min_by_key(|(_, kept)| kept.used)
        {
            self.plans.remove(&oldest);
        }
        let (config, weights) = (self.model.config(), self.model.weights());
        let before = self.arena.bytes();
        let build = Builder::new(weights.device(), self.precision);
        let (plan, logits) =
            plan(build, config, weights, &self.cache, &self.inputs, size, &mut self.arena)?;
        if self.arena.bytes() != before {
            // The others would keep the smaller arena alive.
            self.plans.clear();
        }
        let unused = self.model.weights().unused();
        if self.plans.is_empty() && size.outputs > 0 && !unused.is_empty() {
            let names = unused
                .iter()
                .take(8)
                .map(|name| polaris_core::printable(name))
                .collect::<Vec<_>>()
                .join(", ");
            log::warn!("{} tensors of the model are not used: {names}", unused.len());
        }
        self.plans.insert(size, Kept { plan, logits, used: self.runs });
        Ok(())
    }

    /// Begins to measure each step, which takes time itself on devices that compute while the program goes on.
    pub fn begin_profile(&mut self) {
        self.profile = Some(Profile::default());
    }

    /// Ends what [`Engine::begin_profile`] began: the steps, the longest first.
    pub fn end_profile(&mut self) -> Vec<StepTime> {
        self.profile.take().map_or_else(Vec::new, Profile::steps)
    }

    /// Appends a token to a sequence, computes it, and measures each step, as [`Engine::begin_profile`] does.
    ///
    /// # Errors
    /// As for [`Engine::step`].
    pub fn step_timed(
        &mut self,
        sequence: usize,
        token: u32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<TimedStep>> {
        let before = self.profile.replace(Profile::default());
        let computed = self.step(&[(sequence, token)], is_cancelled).map(|_| ());
        let profile = std::mem::replace(&mut self.profile, before).unwrap_or_default();
        computed?;
        let weights = self.model.weights();
        let name = |array: &Array| {
            let (name, whole) = weights.origin(array)?;
            // Vectors beside the matrix: biases, norms.
            let is_matrix = whole.shape().dims().iter().filter(|&&dim| dim > 1).count() > 1;
            is_matrix.then(|| name.to_owned())
        };
        let plan = &self.plans[&Size { tokens: 1, outputs: 1, sequences: 1 }].plan;
        let timed = |((label, factors), &seconds): ((&str, &[Array]), &f64)| TimedStep {
            label: label.to_owned(),
            tensors: factors.iter().filter_map(name).collect(),
            seconds,
        };
        Ok(plan.factors().zip(profile.each()).map(timed).collect())
    }

    /// The steps that compute one token, in words.
    ///
    /// # Errors
    /// If the plan cannot be made.
    pub fn describe(&mut self, tokens: usize) -> Result<Vec<String>> {
        let size = Size { tokens: tokens.clamp(1, self.batch), outputs: 1, sequences: 1 };
        self.prepare(size)?;
        Ok(self.plans[&size].plan.describe().collect())
    }
}
