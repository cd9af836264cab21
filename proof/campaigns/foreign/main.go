// The worker in Go of a campaign: the example, with handlers that write down their calls.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

var (
	folder = os.Getenv("GNOMON_PROOF_FOLDER")
	book   *os.File
)

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

func handle(ctx context.Context, task *Task) (any, error) {
	var asked struct {
		N, Fails int
		Seconds  float64
	}
	if err := json.Unmarshal(task.Payload, &asked); err != nil {
		return nil, err
	}
	call := map[string]any{
		"n": asked.N, "run_id": task.TaskID, "attempt": task.Attempt, "fence": task.Fence,
		"began_at": now(), "node": os.Getenv("GNOMON_NODE_NAME"),
	}
	note(call)
	err := work(ctx, asked.Seconds, asked.N, asked.Fails)
	call["ended_at"], call["succeeded"], call["hung_up"] = now(), err == nil, ctx.Err() != nil
	note(call)
	return nil, err
}

func note(call map[string]any) {
	line, _ := json.Marshal(call)
	if _, err := book.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, long float64, n, fails int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(seconds(long)):
	}
	// Fail the first tries, whichever workers make them: each leaves a file behind.
	tries := filepath.Join(folder, "tries")
	if err := os.MkdirAll(tries, 0o755); err != nil {
		return err
	}
	for number := 0; number < fails; number++ {
		file := filepath.Join(tries, fmt.Sprintf("%d.%d", n, number))
		made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		made.Close()
		return fmt.Errorf("try %d of %d that fail", number+1, fails)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	name := filepath.Join(folder, fmt.Sprintf("calls-%d.jsonl", os.Getpid()))
	if book, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		log.Fatal(err)
	}
	slots, _ := strconv.Atoi(os.Getenv("GNOMON_NODE_SLOTS"))
	if err := Run(ctx, Options{
		URL:      os.Getenv("GNOMON_URL"),
		Name:     os.Getenv("GNOMON_NODE_NAME"),
		Slots:    slots,
		Drain:    20 * time.Second,
		Handlers: map[string]Handler{"function": handle, "thread": handle},
	}); err != nil {
		log.Fatal(err)
	}
}
