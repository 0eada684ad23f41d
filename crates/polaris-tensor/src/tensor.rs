//! The tensor: an array, and how it came to be.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polaris_core::{DType, Element, Shape};
use polaris_ops::{Array, Distribution, copy, fill, random};
use polaris_runtime::DeviceRef;

use crate::mode::is_recording;
use crate::node::{Backward, Node, lock};
use crate::{Error, Result, Saved};

/// An array on a device, immutable but for explicit updates in place. Clones and views share the
/// memory.
#[derive(Clone)]
pub struct Tensor {
    array: Array,
    storage: Arc<Storage>,
    pub(crate) node: Option<Arc<Node>>,
}

/// What all views of one memory share.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    version: AtomicU64,
}

impl Storage {
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

impl Tensor {
    /// A tensor of these values.
    ///
    /// # Errors
    /// If the shape holds another number of them, or there is no room.
    pub fn from_slice<T: Element>(
        device: &DeviceRef,
        dims: &[usize],
        values: &[T],
    ) -> Result<Self> {
        Ok(Self::new(Array::from_slice(device, dims, values)?))
    }

    /// Every element is the same.
    ///
    /// # Errors
    /// If there is no room.
    pub fn full(device: &DeviceRef, dims: &[usize], dtype: DType, value: f64) -> Result<Self> {
        Ok(Self::new(fill::full(device, dtype, Shape::new(dims)?, value)?))
    }

    /// Zeros.
    ///
    /// # Errors
    /// If there is no room.
    pub fn zeros(device: &DeviceRef, dims: &[usize], dtype: DType) -> Result<Self> {
        Self::full(device, dims, dtype, 0.0)
    }

    /// Ones.
    ///
    /// # Errors
    /// If there is no room.
    pub fn ones(device: &DeviceRef, dims: &[usize], dtype: DType) -> Result<Self> {
        Self::full(device, dims, dtype, 1.0)
    }

    /// Normally distributed numbers of mean 0 and deviation 1; the same on every device.
    ///
    /// # Errors
    /// If the type is not a floating-point one, or there is no room.
    pub fn randn(device: &DeviceRef, dims: &[usize], dtype: DType, seed: u64) -> Result<Self> {
        let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
        Ok(Self::new(random::random(device, dtype, Shape::new(dims)?, normal, seed)?))
    }

    /// Numbers that are distributed evenly from `low` to `high`; the same on every device.
    ///
    /// # Errors
    /// If the type is not a floating-point one, the limits do not fit, or there is no room.
    pub fn uniform(
        device: &DeviceRef,
        dims: &[usize],
        dtype: DType,
        (low, high): (f64, f64),
        seed: u64,
    ) -> Result<Self> {
        let uniform = Distribution::Uniform { low, high };
        Ok(Self::new(random::random(device, dtype, Shape::new(dims)?, uniform, seed)?))
    }

    /// A tensor over an array, without history.
    pub fn new(array: Array) -> Self {
        Self::sharing(array, Arc::default())
    }

    pub(crate) fn sharing(array: Array, storage: Arc<Storage>) -> Self {
        Self { array, storage, node: None }
    }

    /// The array.
    pub fn array(&self) -> &Array {
        &self.array
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.array.shape()
    }

    /// The lengths of the axes.
    pub fn dims(&self) -> &[usize] {
        self.array.shape().dims()
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.array.shape().rank()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.array.elements()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.array.dtype()
    }

    /// The device.
    pub fn device(&self) -> &DeviceRef {
        self.array.device()
    }

    /// The elements in row-major order, copied to the host.
    ///
    /// # Errors
    /// If the type is another one, or the copy fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(self.array.to_vec()?)
    }

    /// The elements in row-major order as `f64`, whatever their type.
    ///
    /// # Errors
    /// If the copy fails.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        let host = self.detach().to_device(&host_of(self.device()))?;
        Ok(copy::cast(&host.array, DType::F64)?.to_vec()?)
    }

    /// The only element, as `f64`.
    ///
    /// # Errors
    /// If there are more or fewer, or the copy fails.
    pub fn item(&self) -> Result<f64> {
        match self.to_f64()?.as_slice() {
            [value] => Ok(*value),
            values => {
                let what =
                    format!("a tensor of {} elements is no single value; index it", values.len());
                Err(Error::InvalidParameter { op: "item", what })
            }
        }
    }

    /// The same memory, as a tensor that a gradient is wanted of.
    ///
    /// # Errors
    /// `NotDifferentiable` for types that are not floating-point ones.
    pub fn requires_grad(&self) -> Result<Self> {
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::NotDifferentiable { dtype });
        }
        Ok(Self { node: Some(Node::leaf(*self.shape(), dtype)), ..self.clone() })
    }

    /// Whether gradients flow to or through it.
    pub fn is_tracked(&self) -> bool {
        self.node.is_some()
    }

    /// Whether it was made by hand and not by an operation that is remembered.
    pub fn is_leaf(&self) -> bool {
        self.node.as_ref().is_none_or(|node| node.is_leaf())
    }

    /// The same memory without history.
    pub fn detach(&self) -> Self {
        Self { node: None, ..self.clone() }
    }

    /// The sum of the gradients that backward passes brought: of leaves, and of tensors that
    /// [`retain_grad`](Self::retain_grad) was called on.
    pub fn grad(&self) -> Option<Self> {
        lock(&self.node.as_ref()?.gradient).clone()
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        if let Some(node) = &self.node {
            lock(&node.gradient).take();
        }
    }

    /// Keeps the gradient of a result, too.
    pub fn retain_grad(&self) {
        if let Some(node) = &self.node {
            node.retains.store(true, Ordering::Relaxed);
        }
    }

    /// Calls a function with the gradient of this tensor whenever a backward pass has it complete.
    /// What the function returns takes the gradient's place.
    pub fn register_hook(
        &self,
        hook: impl Fn(&Self) -> Result<Option<Self>> + Send + Sync + 'static,
    ) {
        if let Some(node) = &self.node {
            lock(&node.hooks).push(Arc::new(hook));
        }
    }

    /// Keeps this tensor for the backward pass of an operation.
    pub fn save(&self, op: &'static str) -> Saved {
        Saved::new(op, &self.array, &self.storage)
    }

    /// The result of an operation on inputs. If a gradient can flow, `backward` is asked for the
    /// function that leads from the result's gradient to the inputs', and both are remembered.
    pub(crate) fn record<F>(
        name: &'static str,
        result: Self,
        inputs: &[&Self],
        backward: impl FnOnce(&Self) -> F,
    ) -> Self
    where
        F: Fn(&Self, &[bool]) -> Result<Vec<Option<Self>>> + Send + Sync + 'static,
    {
        let tracked = inputs.iter().any(|input| input.is_tracked());
        if !tracked || !is_recording() || !result.dtype().is_float() {
            return result;
        }
        let edges = inputs.iter().map(|input| input.node.clone()).collect();
        let backward: Arc<Backward> = Arc::new(backward(&result));
        let node = Node::result(name, *result.shape(), result.dtype(), edges, backward);
        Self { node: Some(node), ..result }
    }
}

/// The device that the host reads directly.
fn host_of(device: &DeviceRef) -> DeviceRef {
    match device.as_opencl() {
        Some(opencl) => opencl.host().clone(),
        None => device.clone(),
    }
}

impl AsRef<Array> for Tensor {
    fn as_ref(&self) -> &Array {
        &self.array
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {} on {}", self.dtype(), self.shape(), self.device().id())?;
        match &self.node {
            Some(node) if node.is_leaf() => write!(f, ", requires grad)"),
            Some(node) => write!(f, ", by {})", node.name),
            None => write!(f, ")"),
        }
    }
}
