//! Short templates.
