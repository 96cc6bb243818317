# Targets for people who work on dmutex. CI runs .ci/run, which uses the same.

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint

.PHONY: all build test race lint vet tidy bench fuzz demo clean

all: vet test build

build: ## the dmutex program, in bin/
	go build -o bin/dmutex ./cmd/dmutex

test: ## all tests
	go test ./...

race: ## all tests with the race detector
	go test -race ./...

vet:
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

$(GOLANGCI): Makefile
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

lint: $(GOLANGCI) ## golangci-lint, built from source the first time (minutes)
	$(GOLANGCI) run ./...
	$(GOLANGCI) fmt --diff ./...

tidy: ## fails when go.mod is not tidy
	go mod tidy -diff

bench: ## costs of a lock: ns, allocations and messages
	go test ./dmutex ./node ./quorum ./transport -run '^$$' -bench . -benchmem

fuzz: ## each fuzz target for a minute
	go test ./quorum -run '^$$' -fuzz . -fuzztime 60s
	go test ./transport -run '^$$' -fuzz . -fuzztime 60s
	go test ./node -run '^$$' -fuzz . -fuzztime 60s

demo: ## seven processes hand a lock to each other
	go run ./cmd/dmutex demo

clean:
	rm -rf bin
