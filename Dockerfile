# docker build -t fedpan_exp . && docker run --rm -v "$PWD/runs:/experiments/runs" -v "$PWD/data:/experiments/data" fedpan_exp pan=off
FROM python:3.13-slim
RUN useradd --create-home --uid 1000 user
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY fedpan_exp fedpan_exp
COPY hydra_plugins hydra_plugins
COPY conf conf
COPY sweeps sweeps
COPY claims claims
RUN pip install --no-cache-dir -c constraints.txt .
USER 1000
WORKDIR /experiments
ENTRYPOINT ["python", "-m", "fedpan_exp"]
