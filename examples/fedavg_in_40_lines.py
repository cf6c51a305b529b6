"""FedAvg (McMahan et al., 2017) in plain torch: bit for bit the weights of `algorithm=fedavg training.fast=false`.

Clients, batches and initial weights come from fedpan_exp, so that both train on the same draws.
"""

import torch
from torch.nn.functional import cross_entropy

import fedpan_exp as fp
from fedpan_exp.data import Clients, split

SETTINGS = ("dataset=digits", "model.width=64", "fl_scene.K=20", "fl_scene.R=0.25", "fl_scene.E=2", "fl_scene.H=3")


def main() -> dict[str, torch.Tensor]:
    setting = fp.experiment(*SETTINGS)
    scene, training, data = setting.fl_scene, setting.training, setting.dataset.load(setting.seed)
    parts = split(data.train.y, scene.partition_config(), setting.seed).parts  # sample indices, one vector per client
    transform = setting.dataset.transform(torch.device("cpu"))
    clients = Clients(data.train, transform, parts, local_test=0.0, seed=setting.seed)
    net = setting.network()
    server = {name: tensor.clone() for name, tensor in net.state_dict().items()}

    for round_idx in range(1, scene.H + 1):
        cohort = scene.sample_cohort(len(clients), round_idx, setting.seed)
        total = {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in server.items()}
        for k in cohort:
            net.load_state_dict(server)  # the client starts from the server's weights, without momentum
            optimizer = torch.optim.SGD(net.parameters(), training.lr, momentum=training.momentum, fused=True)
            for step, (x, y) in enumerate(clients.batches(k, round_idx, scene.E, scene.B)):
                optimizer.param_groups[0]["lr"] = training.lr_at(step)  # rises over the first steps
                optimizer.zero_grad()
                cross_entropy(net(x), y).backward()
                optimizer.step()
            for name, tensor in net.state_dict().items():
                total[name] += tensor
        server = {name: (tensor / len(cohort)).float() for name, tensor in total.items()}  # the mean over the cohort

        net.load_state_dict(server)
        with torch.no_grad():
            accuracy = (net(transform.normalize(data.test.x)).argmax(1) == data.test.y).double().mean().item()
        print(f"round {round_idx}: accuracy {accuracy:.2%}")
    return server


if __name__ == "__main__":
    main()
