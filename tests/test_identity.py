"""Which settings are the same run."""

from fedpan_exp.sweeping.jobs import read_jobs


def names(*words: str) -> list[str]:
    jobs = read_jobs([["-m", "dataset=digits", *words]])
    assert jobs is not None
    return [job.record.name for job in jobs.jobs]


def test_pans_off_is_one_run_whatever_A_T_and_encoding_say():
    plain = {*names("pan=off"), *names("pan=add", "pan.A=0", "pan.T=1,7", "pan.encoding=sine,ramp")}
    assert len(plain) == 1


def test_a_T_that_is_neutral_at_every_width_is_off():
    off, *waves = names("model.width=16", "pan=mul", "pan.T=0,1,2,8,16")
    assert [name == off for name in waves] == [False, False, True, True]
    assert names("model.width=16", "pan=off") == [off]


def test_encodings_are_science_and_T_only_where_there_are_waves():
    assert len({*names("pan.encoding=sine,cosine,sign")}) == 3
    assert len({*names("pan.encoding=sign", "pan.T=1,2")}) == 2
    assert len({*names("pan.encoding=ramp,quarter,random", "pan.T=1,2")}) == 3


def test_studies_are_named_by_what_they_depend_on():
    elsewhere = ("fl_scene.partition=iid", "algorithm=moon", "pan=add", "training.lr=1", "eval_every=7")
    kept = ("study=kept_ratio",)
    assert len({*names(*kept), *names(*kept, *elsewhere, "dataset=cifar10"), *names(*kept, "seed=1")}) == 2
    error = ("study=shuffle_error",)
    assert len({*names(*error), *names(*error, *elsewhere), *names(*error, "model.width=8")}) == 2
    doctor = ("study=doctor",)
    assert len({*names(*doctor, "seed=0,1"), *names(*doctor, "fl_scene.alpha=1"), *names(*doctor, "pan=add")}) == 2
