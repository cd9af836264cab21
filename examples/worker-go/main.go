package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

var handlers = map[string]Handler{
	"go.greet": func(_ context.Context, task *Task) (any, error) {
		var order struct{ Name string }
		if err := json.Unmarshal(task.Payload, &order); err != nil {
			return nil, Never{err}
		}
		return "hello " + order.Name, nil
	},
	"go.fail": func(_ context.Context, task *Task) (any, error) {
		return nil, Never{fmt.Errorf("no: %s", task.Payload)}
	},
	"go.odd": func(context.Context, *Task) (any, error) { return math.NaN(), nil }, // is no JSON
	// Long work looks at its context, and says how far it is.
	"go.count": func(ctx context.Context, task *Task) (any, error) {
		var order struct{ Seconds int }
		if err := json.Unmarshal(task.Payload, &order); err != nil {
			return nil, err
		}
		for second := 0; second < order.Seconds; second++ {
			task.Progress(float64(second)/float64(order.Seconds), fmt.Sprintf("%d s", second))
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
			}
		}
		return order.Seconds, nil
	},
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	host, _ := os.Hostname()
	slots, err := strconv.Atoi(setting("SLOTS", "50"))
	if err != nil {
		log.Fatalf("SLOTS: %v", err)
	}
	if err := Run(ctx, Options{
		URL:      setting("GNOMON_URL", "http://127.0.0.1:8080"),
		Key:      os.Getenv("GNOMON_API_KEY"),
		Name:     fmt.Sprintf("%s:%d", host, os.Getpid()),
		Slots:    slots,
		Drain:    20 * time.Second,
		Handlers: handlers,
	}); err != nil {
		log.Fatal(err)
	}
}
