"""What the fuzzers (tests/fuzz) found, each as the smallest file that shows it: now refused by name, or right."""

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import treeinner as ti
from tests.hostile.mutants import Saved

GOLDEN = Path(__file__).parents[1] / "golden"


def lightgbm(tmp_path, pattern, new, name="regression"):
    """A file of LightGBM in which the first text of a pattern is another one."""
    text = (GOLDEN / "lightgbm-4.6.0" / f"{name}.txt").read_text()
    changed = re.sub(pattern, new, text, count=1)
    assert changed != text
    sizes = " ".join(
        str(len(part) + 1) for part in re.findall(r"Tree=.*?(?=\nTree=|\nend of trees)", changed, re.DOTALL)
    )
    (tmp_path / "model.txt").write_text(re.sub(r"tree_sizes=.*", f"tree_sizes={sizes}", changed))
    return tmp_path / "model.txt"


# -- LightGBM ------------------------------------------------------------------------------------------------
def test_a_tree_that_lost_its_first_line_is_not_read_as_part_of_another(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*a field twice"):
        ti.read_model(lightgbm(tmp_path, "Tree=1\n", ""))


@pytest.mark.parametrize("word", ["1_0", "\u0661"])
def test_digits_that_only_python_reads_are_refused(word, tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*leaf_value holds something other than numbers"):
        ti.read_model(lightgbm(tmp_path, r"leaf_value=\S+", f"leaf_value={word}"))


@pytest.mark.parametrize("word", ["1_0", "\u0661", "\u00b2", "1" * 5000])
@pytest.mark.parametrize(
    ("pattern", "field"),
    [
        ("num_class=3", "num_class="),
        ("num_tree_per_iteration=3", "num_tree_per_iteration="),
        (r"max_feature_idx=\d+", "max_feature_idx="),
        ("num_class:3", "num_class:"),
    ],
)
def test_counts_of_the_header_that_only_python_reads_are_refused(pattern, field, word, tmp_path):
    """LightGBM stops at the first letter that is no digit, and so reads another number: 0, for an Arabic digit."""
    reason = "not ASCII|expected a count|its objective says"
    with pytest.raises(ti.ModelError, match=rf"model\.txt: .*({reason})"):
        ti.read_model(lightgbm(tmp_path, pattern, field + word, "multiclass"))


@pytest.mark.parametrize("word", ["1_0", "\u0661", "\u00b2"])
@pytest.mark.parametrize("key", ["learning_rate", "lambda_l2", "max_cat_to_onehot"])
def test_parameters_that_only_python_reads_are_refused(key, word, tmp_path):
    with pytest.raises(ti.ModelError, match=rf"model\.txt: .*parameter {key} is '{word}'; expected a number"):
        ti.read_model(lightgbm(tmp_path, rf"\[{key}: \S+\]", f"[{key}: {word}]"))


def test_a_blank_that_only_python_splits_at_is_refused(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*(leaf_value has \d+ entries|not ASCII|other than numbers)"):
        ti.read_model(lightgbm(tmp_path, r"(leaf_value=\S+) ", "\\1\u2003"))


def test_a_column_named_by_a_digit_that_only_python_knows_is_not_a_number_of_a_column(tmp_path):
    path = lightgbm(tmp_path, r"\[categorical_feature: [^]]*\]", "[categorical_feature: \u00b2,1]")
    assert ti.read_model(path).ensemble.schema.categorical[1]


@pytest.mark.parametrize("gains", ["1=2", "0,1_0", "0,\u0661", "0,,1", "0,nan"])
def test_gains_of_labels_that_are_no_numbers_are_refused(gains, tmp_path):
    path = lightgbm(tmp_path, r"\[label_gain: [^]]*\]", f"[label_gain: {gains}]")
    path.write_text(path.read_text().replace("objective=regression", "objective=lambdarank"))
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*parameter label_gain is .*expected a number"):
        ti.read_model(path)


def test_outputs_that_are_not_the_trees_of_a_round_are_refused(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*3 trees per round, but 0 outputs"):
        ti.read_model(lightgbm(tmp_path, "num_class=3", "num_class=0", "multiclass"))


def test_an_objective_whose_number_is_none_is_refused(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*its objective says 'num_class:x'"):
        ti.read_model(lightgbm(tmp_path, "num_class:3", "num_class:x", "multiclass"))


@pytest.mark.parametrize("number", [2**53, -2, 16])
def test_a_decision_type_of_more_than_four_bits_is_refused(number, tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*unknown decision_type"):
        ti.read_model(lightgbm(tmp_path, r"decision_type=\S+", f"decision_type={number}"))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e+308"])
@pytest.mark.parametrize("field", ["leaf_weight", "internal_value", "internal_weight", "split_gain", "shrinkage"])
def test_absurd_numbers_of_lightgbm_stop_the_method_that_needs_them(field, number, tmp_path):
    path = lightgbm(tmp_path, rf"{field}=\S+", f"{field}={number}")
    with pytest.raises(ti.ModelError, match=f"{field} is not finite, or absurdly large"):
        ti.attribute(path, np.zeros((3, 7)), method="predecomp")


def test_a_tree_of_dart_with_no_shrinkage_is_no_division_by_0(tmp_path):
    path = lightgbm(tmp_path, r"shrinkage=\S+", "shrinkage=0", "dart")
    assert np.isfinite(ti.read_model(path).predict(np.zeros((3, 7)))).all()


def test_a_line_in_a_tree_at_which_lightgbm_stops_is_refused(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*a line that is not key=value"):
        ti.read_model(lightgbm(tmp_path, "\nleaf_count=", "\nx\nleaf_count="))


@pytest.mark.parametrize(
    ("pattern", "new", "reason"),
    [
        (r"\[learning_rate: \S+\]", "[learning_rate: -0]", "learning_rate is -0"),
        (r"\[lambda_l2: \S+\]", "[lambda_l2: -1e308]", "lambda_l2 is '-1e308'"),
        (r"num_cat=0", f"num_cat={2**63 - 1}", "category sets of tree 0"),
    ],
)
def test_numbers_of_lightgbm_that_no_model_has_are_refused(pattern, new, reason, tmp_path):
    with pytest.raises(ti.ModelError, match=rf"model\.txt: .*{reason}"):
        ti.read_model(lightgbm(tmp_path, pattern, new))


# -- CatBoost ------------------------------------------------------------------------------------------------
def table_of_trees(data):
    """Core of a .cbm, and where the table of its trees begins."""
    core = bytearray(data[8 : 8 + int.from_bytes(data[4:8], "little")])
    at = place(core, int.from_bytes(core[:4], "little"), 1)
    return core, at + int.from_bytes(core[at : at + 4], "little")


def place(core, table, member):
    members = table - struct.unpack_from("<i", core, table)[0]
    return table + struct.unpack_from("<H", core, members + 4 + 2 * member)[0]


def vector(core, table, member):
    """Where the numbers of a vector begin."""
    at = place(core, table, member)
    return at + int.from_bytes(core[at : at + 4], "little") + 4


def catboost(tmp_path, name, damage):
    core, trees = table_of_trees((GOLDEN / "catboost-1.2.10" / name).read_bytes())
    damage(core, trees)
    (tmp_path / name).write_bytes(b"CBM1" + struct.pack("<I", len(core)) + core)
    return tmp_path / name


@pytest.mark.parametrize("border", [1e30, float("inf")])
def test_borders_that_do_not_ascend_are_refused(border, tmp_path):
    """CatBoost compares the number of borders that a value exceeds, so that it would predict otherwise."""

    def damage(core, trees):
        feature = vector(core, trees, 5)
        feature += int.from_bytes(core[feature : feature + 4], "little")
        struct.pack_into("<f", core, vector(core, feature, 3), border)

    with pytest.raises(
        ti.ModelError, match=r"regression\.cbm: .*borders of a feature are not finite, or do not ascend"
    ):
        ti.read_model(catboost(tmp_path, "regression.cbm", damage))


def test_values_of_leaves_that_do_not_follow_each_other_are_refused(tmp_path):
    def damage(core, trees):
        at = vector(core, trees, 11)
        leaves = np.frombuffer(core, "<u4", 8, at)
        struct.pack_into("<I", core, at + 4 * int(np.flatnonzero(leaves == 0)[0]), 1)

    with pytest.raises(ti.ModelError, match=r"depthwise\.cbm: .*values of the leaves do not follow"):
        ti.read_model(catboost(tmp_path, "depthwise.cbm", damage))


def test_trees_that_do_not_follow_each_other_are_refused(tmp_path):
    def damage(core, trees):
        struct.pack_into("<i", core, vector(core, trees, 3) + 4, 1)

    with pytest.raises(ti.ModelError, match=r"regression\.cbm: .*the trees do not follow each other"):
        ti.read_model(catboost(tmp_path, "regression.cbm", damage))


def test_leaf_values_of_another_number_of_outputs_are_refused(tmp_path):
    def damage(core, trees):
        struct.pack_into("<i", core, place(core, trees, 0), 1)

    with pytest.raises(ti.ModelError, match=r"multiclass\.cbm: .*do not match the outputs"):
        ti.read_model(catboost(tmp_path, "multiclass.cbm", damage))


@pytest.mark.parametrize(
    ("name", "number"),
    [("l2_leaf_reg", "{}"), ("l2_leaf_reg", "-1"), ("learning_rate", "0"), ("learning_rate", "1e39")],
)
def test_settings_of_catboost_that_are_no_numbers_are_refused(name, number, tmp_path):
    text = (GOLDEN / "catboost-1.2.10" / "regression.json").read_text()
    changed = re.sub(rf'("{name}"\s*:\s*)[^,}}]*', rf"\g<1>{number}", text)
    assert changed != text
    (tmp_path / "model.json").write_text(changed)
    with pytest.raises(ti.ModelError, match=rf"model\.json: .*its {name} is "):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize("number", ["-Infinity", "NaN", "1e308"])
def test_scales_of_catboost_that_are_absurd_are_refused_without_a_warning(number, tmp_path):
    text = (GOLDEN / "catboost-1.2.10" / "regression.json").read_text()
    changed = re.sub(r'("scale_and_bias"\s*:\s*\[)\s*1', rf"\g<1>{number}", text)
    assert changed != text
    (tmp_path / "model.json").write_text(changed)
    with pytest.raises(ti.ModelError, match=r"model\.json.*(absurdly large|not finite|it holds)"):
        ti.read_model(tmp_path / "model.json")


def catboost_json(tmp_path, name, damage):
    document = json.loads((GOLDEN / "catboost-1.2.10" / f"{name}.json").read_text())
    damage(document)
    (tmp_path / "model.json").write_text(json.dumps(document))
    return tmp_path / "model.json"


@pytest.mark.parametrize("number", ["1", True, 2**63 - 1])
@pytest.mark.parametrize("where", ["leaf_values", "leaf_weights", "scale", "bias"])
def test_what_catboost_takes_for_0_is_refused(where, number, tmp_path):
    def damage(document):
        if where in ("scale", "bias"):
            document["scale_and_bias"] = [number, [0.5]] if where == "scale" else [1, [number]]
        else:
            document["oblivious_trees"][0][where][0] = number

    with pytest.raises(ti.ModelError, match=r"model\.json: .*is not a plain number"):
        ti.read_model(catboost_json(tmp_path, "regression", damage))


@pytest.mark.parametrize("bias", [1, 0.5])
def test_a_bias_of_catboost_that_is_no_list_is_refused(bias, tmp_path):
    with pytest.raises(ti.ModelError, match=rf"model\.json: .*its bias is {bias}"):
        ti.read_model(catboost_json(tmp_path, "regression", lambda document: document.update(scale_and_bias=[1, bias])))


@pytest.mark.parametrize("number", [1.5, True, "1"])
def test_numbers_of_features_that_are_no_integers_are_refused(number, tmp_path):
    def damage(document):
        document["features_info"]["float_features"][0]["flat_feature_index"] = number

    with pytest.raises(ti.ModelError, match=r"model\.json: .*number of a feature is not an integer"):
        ti.read_model(catboost_json(tmp_path, "regression", damage))


def test_missing_values_of_a_column_that_had_none_go_left_as_in_catboost(tmp_path):
    """nan_mode="Max" sends NaN to the right where training saw some, and only there."""
    whole = json.loads((GOLDEN / "catboost-1.2.10" / "nan_max.json").read_text())
    features = whole["features_info"]["float_features"]
    columns = [f["flat_feature_index"] for f in features if f["has_nans"] and f.get("borders")]

    def damage(document):
        for feature in document["features_info"]["float_features"]:
            feature["has_nans"] = False

    e = ti.read_model(catboost_json(tmp_path, "nan_max", damage)).ensemble
    asked = np.isin(e.feature, columns)
    assert asked.any()
    assert e.missing_left[asked].all()
    whole = ti.read_model(GOLDEN / "catboost-1.2.10" / "nan_max.json").ensemble
    assert not whole.missing_left[asked].any()


def test_half_a_letter_at_which_catboosts_parser_stops_is_refused(tmp_path):
    def damage(document):
        document["oblivious_trees"][0]["splits"][0]["float_feature_index"] = "\ud800"

    with pytest.raises(ti.ModelError, match=r"model\.json.*surrogates"):
        ti.read_model(catboost_json(tmp_path, "regression", damage))


def test_a_number_too_large_for_catboosts_parser_is_refused_wherever_it_is(tmp_path):
    text = (GOLDEN / "catboost-1.2.10" / "regression.json").read_text()
    (tmp_path / "model.json").write_text(re.sub(r'("float_feature_index"\s*:\s*)\d+', r"\g<1>1e999", text))
    with pytest.raises(ti.ModelError, match=r"model\.json.*it holds 1e999"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize(("number", "reason"), [(1.5, "integer"), (True, "integer"), (float("nan"), "it holds NaN")])
def test_numbers_of_splits_that_catboost_does_not_read_are_refused(number, reason, tmp_path):
    def damage(document):
        document["oblivious_trees"][0]["splits"][0]["split_index"] = number

    with pytest.raises(ti.ModelError, match=rf"model\.json.*{reason}"):
        ti.read_model(catboost_json(tmp_path, "regression", damage))


@pytest.mark.parametrize("labels", [[0, 2, 1], [0, 0, 2], [0, 1, 1000], [0, 1], [-1, 0, 1]])
def test_outputs_of_catboost_in_another_order_than_its_classes_are_refused(labels, tmp_path):
    def damage(document):
        document["model_info"]["class_params"]["class_to_label"] = labels

    with pytest.raises(ti.ModelError, match=r"model\.json: .*its classes are those of the labels"):
        ti.read_model(catboost_json(tmp_path, "multiclass", damage))


# -- XGBoost -------------------------------------------------------------------------------------------------
def test_a_signalling_nan_is_refused_without_a_warning(tmp_path):
    data = (GOLDEN / "xgboost-3.2.0" / "regression.ubj").read_bytes()
    at = data.index(b"split_conditions") + len("split_conditions[$d#L") + 8
    (tmp_path / "model.ubj").write_bytes(data[:at] + b"\x7f\xa0\0\0" + data[at + 4 :])
    with pytest.raises(ti.ModelError, match=r"model\.ubj: .*(NaN|not finite)"):
        ti.read_model(tmp_path / "model.ubj")


def xgboost(tmp_path, damage):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    damage(document["learner"]["gradient_booster"]["model"]["trees"])
    (tmp_path / "model.json").write_text(json.dumps(document))
    return tmp_path / "model.json"


def test_trees_in_another_order_than_their_ids_are_refused(tmp_path):
    with pytest.raises(ti.ModelError, match=r"model\.json: .*the id of a tree is not its position"):
        ti.read_model(xgboost(tmp_path, lambda trees: trees.reverse()))


@pytest.mark.parametrize("field", ["default_left", "split_type"])
def test_answers_that_are_neither_yes_nor_no_are_refused(field, tmp_path):
    def damage(trees):
        trees[0][field][0] = 2

    with pytest.raises(ti.ModelError, match=r"model\.json: .*neither 0 nor 1"):
        ti.read_model(xgboost(tmp_path, damage))


@pytest.mark.parametrize(
    ("entry", "text", "reason"),
    [
        ("base_score", "[1000000000000000000000000000000]", "base_score is not finite, or absurdly large"),
        ("size_leaf_vector", "123456789012345678901234567890", "a leaf has 123456789012345678901234567890 values"),
    ],
)
def test_numbers_of_xgboost_beyond_64_bits_are_refused(entry, text, reason, tmp_path):
    whole = (GOLDEN / "xgboost-3.2.0" / "regression.json").read_text()
    changed = re.sub(rf'"{entry}":"[^"]*"', f'"{entry}":"{text}"', whole)
    assert changed != whole
    (tmp_path / "model.json").write_text(changed)
    with pytest.raises(ti.ModelError, match=rf"model\.json: .*{reason}"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize("text", ["1_0", "\u0661", "\u00b2"])
@pytest.mark.parametrize(
    "entry", ["base_score", "num_feature", "num_class", "num_target", "num_parallel_tree", "size_leaf_vector",
              "scale_pos_weight"],
)  # fmt: skip
def test_numbers_of_xgboost_that_only_python_reads_are_refused(entry, text, tmp_path):
    """XGBoost raises on them, or reads another number."""
    whole = (GOLDEN / "xgboost-3.2.0" / "regression.json").read_text()
    changed = re.sub(rf'"{entry}":"[^"]*"', f'"{entry}":"{text}"', whole)
    assert changed != whole
    (tmp_path / "model.json").write_text(changed, encoding="utf-8")
    with pytest.raises(
        ti.ModelError, match=r"model\.json: .*(only Python reads|not an integer|not a number|a parameter is)"
    ):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize("text", ["1E-9", "9.9999994E-1", "0E0"])
def test_base_scores_so_near_to_0_or_1_that_versions_differ_are_refused(text, tmp_path):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    document["learner"]["objective"] = {"name": "binary:logistic", "reg_loss_param": {"scale_pos_weight": "1"}}
    document["learner"]["learner_model_param"]["base_score"] = f"[{text}]"
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ti.UnsupportedModelError, match=r"model\.json: .*so near to 0 or 1"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("objective", "label"), [("binary:logistic", 1.0), ("binary:logistic", 0.0), ("count:poisson", 0.0)]
)
def test_a_model_of_one_label_is_called_that(objective, label):
    xgb = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(50, 3))
    booster = xgb.train({"objective": objective, "nthread": 1}, xgb.DMatrix(X, np.full(50, label)), 3)
    with pytest.raises(ti.UnsupportedModelError, match=r"as of training (labels|targets) that are all"):
        ti.read_model(booster)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}'])
def test_json_of_another_kind_is_not_called_a_list(text, tmp_path):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ti.ModelError, match="is a JSON file, but not an XGBoost or CatBoost model"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize(
    "objective",
    [
        {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": []}},
        {"name": "reg:quantileerror", "quantile_loss_param": {"quantile_alpha": [0.5] * 300}},
    ],
)
def test_parameters_of_xgboosts_losses_are_texts(objective, tmp_path):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    document["learner"]["objective"] = objective
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*a parameter of the loss is not text"):
        ti.read_model(tmp_path / "model.json")


def test_levels_of_quantiles_that_are_not_those_of_the_outputs_are_refused(tmp_path):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    document["learner"]["objective"] = {
        "name": "reg:quantileerror",
        "quantile_loss_param": {"quantile_alpha": "[0.1,0.5,0.9]"},
    }
    (tmp_path / "model.json").write_text(json.dumps(document))
    X = np.zeros((9, 7))
    for options in ({}, {"objective": "quantile:alpha=[0.1,0.9]"}):
        with pytest.raises(ti.TreeInnerError, match=r"alpha has [23] values, expected one, or one for each"):
            ti.importance(tmp_path / "model.json", X, X[:, 0], **options)


def test_a_base_score_that_is_0_in_float32_is_refused(tmp_path):
    """XGBoost predicts minus infinity."""
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    document["learner"]["objective"] = {"name": "reg:gamma"}
    document["learner"]["learner_model_param"]["base_score"] = "1e-320"
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*the base score is not finite"):
        ti.read_model(tmp_path / "model.json")


def test_absurdly_small_covers_are_refused(tmp_path):
    saved = saved_model(tmp_path)
    saved.arrays["cover.npy"] = np.full_like(saved.arrays["cover.npy"], 1e-320)
    (tmp_path / "saved").write_bytes(saved.packed())
    with pytest.raises(ti.ModelError, match=r"saved: .*the cover of a tree is absurdly small"):
        ti.load(tmp_path / "saved")


def test_a_model_without_columns_is_refused(tmp_path):
    saved = saved_model(tmp_path)
    for name in ("feature", "left", "right", "category_set"):  # every tree is one leaf
        saved.arrays[f"{name}.npy"] = np.full(len(saved.arrays["tree_output.npy"]), -1, np.int32)
    n = len(saved.arrays["tree_output.npy"])
    saved.arrays |= {f"{name}.npy": np.zeros((n, 1)) for name in ("value", "node_value")}
    saved.arrays |= {f"{name}.npy": np.zeros(n) for name in ("threshold", "cover", "gain")}
    saved.arrays |= {"missing_left.npy": np.zeros(n, bool), "leaf_id.npy": np.zeros(n, np.int32)}
    saved.arrays["tree_start.npy"] = np.arange(n + 1)
    saved.meta["data"]["schema"] |= {"n_columns": 0, "names": None, "categorical": None}
    saved.meta["data"]["feature_names"] = None
    (tmp_path / "saved").write_bytes(saved.packed())
    with pytest.raises(ti.ModelError, match=r"saved: .*it has 0 columns"):
        ti.load(tmp_path / "saved")


# -- our own files -------------------------------------------------------------------------------------------
def saved_model(tmp_path):
    path = tmp_path / "saved"
    ti.read_model(GOLDEN / "xgboost-3.2.0" / "regression.json").save(path)
    return Saved.of(path.read_bytes())


def test_an_integer_beyond_all_numbers_is_refused(tmp_path):
    saved = saved_model(tmp_path)
    saved.meta["data"]["schema"]["missing"] = 10**30
    (tmp_path / "saved").write_bytes(saved.packed())
    with pytest.raises(ti.ModelError, match="saved: missing is 1000"):
        ti.load(tmp_path / "saved")


@pytest.mark.parametrize("weight", [1e-320, 1e300])
def test_absurd_weights_of_trees_are_refused(weight, tmp_path):
    saved = saved_model(tmp_path)
    saved.arrays["tree_weight.npy"] = np.full_like(saved.arrays["tree_weight.npy"], weight)
    (tmp_path / "saved").write_bytes(saved.packed())
    with pytest.raises(ti.ModelError, match=r"saved: .*the weight of a tree is not finite, or absurdly large or small"):
        ti.load(tmp_path / "saved")


def accumulator(**settings):
    return ti.ImportanceAccumulator(GOLDEN / "xgboost-3.2.0" / "regression.json", n_jobs=1, **settings)


SUMS = {
    "negative sum of squares": ("0.squares.npy", (0, 0), -1),
    "limb of 64 bits": ("0.sums.npy", (0, 3), -(2**63)),
    "negative count": ("0.counts.npy", (0,), -5),
    "negative weight of a leaf": ("0.leaf_weights.npy", (0, 0), -1),
    "no weight": ("0.weight.npy", (0, slice(None)), 0),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.filterwarnings("ignore")  # what is assumed of the model
def test_sums_that_no_rows_have_are_refused(name):
    X = np.random.default_rng(0).normal(size=(30, 7))
    saved = Saved.of(accumulator(method="centred").update(X, X[:, 0]).to_bytes())
    member, at, number = SUMS[name]
    saved.arrays[member] = saved.arrays[member].copy()
    saved.arrays[member][at] = number
    with pytest.raises(ti.ModelError, match="The bytes are damaged"):
        accumulator(method="centred").from_bytes(saved.packed())


@pytest.mark.filterwarnings("ignore")
def test_a_histogram_of_two_billion_sizes_is_not_allocated():
    X = np.random.default_rng(0).normal(size=(30, 7))
    saved = Saved.of(accumulator().update(X, X[:, 0]).to_bytes())
    saved.meta["data"]["scales"]["0"]["n_sizes"] = 2**31 - 1
    with pytest.raises(ti.ModelError, match="n_sizes is out of range"):
        accumulator().from_bytes(saved.packed())


def test_weights_of_dart_in_a_gbtree_that_would_ignore_them_are_refused(tmp_path):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    model = document["learner"]["gradient_booster"]["model"]
    model["weight_drop"] = [0] * len(model["trees"])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*has weight_drop, which it ignores"):
        ti.read_model(tmp_path / "model.json")


def test_a_tree_without_the_types_of_its_splits_is_refused(tmp_path):
    document = json.loads((GOLDEN / "xgboost-3.2.0" / "regression.json").read_text())
    del document["learner"]["gradient_booster"]["model"]["trees"][1]["split_type"]
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ti.ModelError, match=r"model\.json: .*some trees have split_type, and others do not"):
        ti.read_model(tmp_path / "model.json")


@pytest.mark.parametrize("word", ["0.605511", "Y16", "0x10", "-nan", "-3", "0"])
def test_sizes_of_lightgbms_trees_are_positive_integers(word, tmp_path):
    text = (GOLDEN / "lightgbm-4.7.0" / "regression.txt").read_text()
    (tmp_path / "model.txt").write_text(re.sub(r"tree_sizes=(\d+) \d+", rf"tree_sizes=\1 {word}", text))
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*tree_sizes"):
        ti.read_model(tmp_path / "model.txt")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_carriage_returns_that_end_no_lines_are_refused(end, tmp_path):
    text = (GOLDEN / "lightgbm-4.7.0" / "regression.txt").read_text().replace("\n", end)
    (tmp_path / "model.txt").write_bytes(text.encode())
    ti.read_model(tmp_path / "model.txt")
    (tmp_path / "model.txt").write_bytes(text.replace("split_gain", "\rsplit_gain", 1).encode())
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*carriage returns"):
        ti.read_model(tmp_path / "model.txt")


def test_a_header_that_runs_into_the_trees_is_refused(tmp_path):
    """LightGBM counts the bytes of trees from the blank line on, and reads other trees without it."""
    text = (GOLDEN / "lightgbm-4.7.0" / "regression.txt").read_text()
    (tmp_path / "model.txt").write_text(text.replace("\n\n", "\n"))
    with pytest.raises(ti.ModelError, match=r"model\.txt: .*no blank line"):
        ti.read_model(tmp_path / "model.txt")


def test_leaves_that_are_nothing_have_no_score(tmp_path):
    text = (GOLDEN / "lightgbm-4.7.0" / "regression.txt").read_text()
    (tmp_path / "model.txt").write_text(
        re.sub(r"(?m)^leaf_value=.*$", lambda m: re.sub(r"[-\d.e]+(?= |$)", "1e-320", m[0]), text)
    )
    X = np.random.default_rng(0).normal(size=(30, 7))
    found = ti.importance(tmp_path / "model.txt", X, X[:, 0], objective="squared_error", std_errors=False)
    assert np.all(found.scores == 0)
