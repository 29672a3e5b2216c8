# The image has only a static binary: no shell and no packages.
FROM golang:1.26 AS build
ARG VERSION=v0.0.0-unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
RUN CGO_ENABLED=0 go build -trimpath -o /controller \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=${VERSION}" ./cmd/controller

FROM scratch
COPY --from=build /controller /controller
USER 65532:65532
ENTRYPOINT ["/controller"]
