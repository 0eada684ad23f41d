//! Images: resizing, sampling, regions, decoding.

mod decode;
mod grid;
mod interpolate;
mod regions;
mod resize;
mod suppress;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("AffineGrid", grid::affine_grid),
    ("GridSample", grid::grid_sample),
    ("ImageDecoder", decode::image_decoder),
    ("MaxRoiPool", regions::max_roi_pool),
    ("NonMaxSuppression", suppress::non_max_suppression),
    ("Resize", resize::resize),
    ("RoiAlign", regions::roi_align),
    ("Upsample", resize::upsample),
];
