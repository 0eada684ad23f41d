//! Configurations as TOML: what is read, and where messages put the blame.

use polaris_nn::Error;
use polaris_nn::train::{Config, ConfigTable};

fn message(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    std::fs::write(&path, text).unwrap();
    let message = Config::from_file(&path).unwrap_err().to_string();
    message.strip_prefix(&format!("{}/", folder.path().display())).unwrap().to_owned()
}

#[test]
fn built_in_configurations_are_right() {
    for name in ConfigTable::built_in_names() {
        ConfigTable::built_in(name).unwrap().config().unwrap().check().unwrap();
    }
    assert!(ConfigTable::built_in("none").is_none());
}

#[test]
fn defaults_are_those_of_a_file_with_nothing_else() {
    let text = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n";
    let config = Config::default();
    assert_eq!(Config::from_toml(text).unwrap(), config);
    assert_eq!(Config::from_toml(&config.to_toml().unwrap()).unwrap(), config);
}

#[test]
fn misspelled_keys_are_named_with_line_and_nearest() {
    let head = "[model]\nkind = \"mlp\"\n[data]\nsource = \"digits\"\n";
    let found = message(&format!("{head}[optim]\nlrr = 1\n"));
    assert!(found.starts_with("a.toml:6: `lrr` in [optim]: unknown field `lrr`"), "{found}");
    assert!(found.ends_with("(did you mean `lr`?)"), "{found}");
    let found = message("[model]\nkind = \"cn\"\n[data]\nsource = \"digits\"\n");
    assert!(found.contains("a.toml:2") && found.contains("`cnn`?"), "{found}");
    let found = message("[model]\nkind = \"mlp\"\nhiden = [3]\n[data]\nsource = \"digits\"\n");
    assert!(found.contains("a.toml:3") && found.contains("did you mean `hidden`"), "{found}");
    let found = message(&format!("{head}[train] # how long\n# the epochs\nepochs = \"ten\"\n"));
    assert!(found.starts_with("a.toml:7: `epochs` in [train]"), "{found}");
    let found = message(&format!("{head}[optm]\nlr = 1\n"));
    assert!(found.contains("did you mean `optim`"), "{found}");
    assert!(message("[model]\nkind = \"mlp\"\n").contains("a.toml: the section [data] is"));
    let found = message(&format!("{head}[optim]\nlr = -1\n"));
    assert_eq!(found, "a.toml: optim.lr must be above 0");
}

#[test]
fn values_are_set_by_their_names() {
    let mut table = ConfigTable::built_in("digits").unwrap();
    for (key, value) in
        [("optim.lr", "0.5"), ("train.device", "opencl:0"), ("model.hidden", "[3, 4]")]
    {
        table.set(key, value).unwrap();
    }
    let config = table.config().unwrap();
    assert_eq!((config.optim.lr, config.train.device.as_str()), (0.5, "opencl:0"));
    table.set("optim.lr", "fast").unwrap();
    // The line of the text is not to blame for what was set later.
    let Err(Error::Config { line, key, .. }) = table.config() else { panic!() };
    assert_eq!((line, key.as_deref()), (None, Some("optim.lr")));
    assert!(table.set("optim.lr.x", "1").is_err());
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let text = "[model]\nkind = \"mlp\"\n[data]\nsource = \"csv\"\npath = \"a.csv\"\n";
    std::fs::write(&path, text).unwrap();
    let config = Config::from_file(&path).unwrap();
    assert_eq!(config.data.path, Some(folder.path().join("a.csv")));
    assert_eq!(config.data.tokenizer, "bytes");
}
