"""Which settings give the same run."""

from fedpan_exp.sweeping.jobs import read_jobs


def names(*overrides: str) -> list[str]:
    return [job.name for job in read_jobs("dataset=digits", *overrides)]


def test_pans_off_is_one_run_for_any_A_T_and_encoding():
    off = {*names("pan=off"), *names("pan=add", "pan.A=0", "pan.T=1,7", "pan.encoding=sine,ramp")}
    assert len(off) == 1


def test_a_T_that_is_neutral_at_every_width_is_off():
    off, *waves = names("model.width=16", "pan=mul", "pan.T=0,1,2,8,16")
    assert [name == off for name in waves] == [False, False, True, True]
    assert names("model.width=16", "pan=off") == [off]


def test_the_encoding_is_part_of_the_identity_and_T_only_if_it_is_periodic():
    assert len({*names("pan.encoding=sine,cosine,sign")}) == 3
    assert len({*names("pan.encoding=sign", "pan.T=1,2")}) == 2
    assert len({*names("pan.encoding=ramp,quarter,random", "pan.T=1,2")}) == 3


def test_a_study_is_identified_by_what_it_depends_on():
    unrelated = ("fl_scene.partition=iid", "algorithm=moon", "pan=add", "training.lr=1", "eval_every=7")
    kept_ratio = ("study=kept_ratio",)
    same = {*names(*kept_ratio), *names(*kept_ratio, *unrelated, "dataset=cifar10")}
    assert len({*same, *names(*kept_ratio, "seed=1")}) == 2
    error = ("study=shuffle_error",)
    assert len({*names(*error), *names(*error, *unrelated), *names(*error, "model.width=8")}) == 2
    doctor = ("study=doctor",)
    assert len({*names(*doctor, "seed=0,1"), *names(*doctor, "fl_scene.alpha=1"), *names(*doctor, "pan=add")}) == 2


def test_settings_that_were_added_later_keep_the_id_at_their_neutral_value():
    assert len({*names("model.init=authors", "fl_scene.steps=null", "plugins=[]"), *names()}) == 1
    assert len({*names("fl_scene.steps=9", "fl_scene.E=1,0.5"), *names("fl_scene.E=0.5")}) == 2
    assert len({*names("model.init=authors,he,torch")}) == 3
    vgg = ("dataset=cifar10", "model=vgg9")
    assert len({*names(*vgg, "model.width_factor=1,0.5"), *names(*vgg)}) == 2
    assert len({*names(*vgg, "model.groups=1,10"), *names(*vgg, "model.shared_layers=2"), *names(*vgg)}) == 2
