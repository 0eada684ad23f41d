//! Operators of the domain ai.onnx.ml.

mod features;
mod forest;
mod labels;
mod linear;
mod scores;
mod trees;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("ArrayFeatureExtractor", features::array_feature_extractor),
    ("Binarizer", features::binarizer),
    ("CategoryMapper", labels::category_mapper),
    ("FeatureVectorizer", features::feature_vectorizer),
    ("Imputer", features::imputer),
    ("LabelEncoder", labels::label_encoder),
    ("LinearClassifier", linear::linear_classifier),
    ("LinearRegressor", linear::linear_regressor),
    ("Normalizer", features::normalizer),
    ("OneHotEncoder", labels::one_hot_encoder),
    ("Scaler", features::scaler),
    ("TreeEnsemble", trees::tree_ensemble),
    ("TreeEnsembleClassifier", trees::tree_ensemble_classifier),
    ("TreeEnsembleRegressor", trees::tree_ensemble_regressor),
];
