# The image has only a static binary: no shell and no packages. `make image` builds the same image for more platforms,
# without a container engine. `make -s ldflags` prints LDFLAGS.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
ARG LDFLAGS="-s -w"
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$LDFLAGS" -o /controller ./cmd/controller

FROM scratch
COPY --from=build /controller /controller
USER 65532:65532
ENTRYPOINT ["/controller"]
