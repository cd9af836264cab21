// Calls a real API through the generated client. Prints what came back, for the test to compare.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gnomon.example/client/gnomon"

	"github.com/google/uuid"
)

func main() {
	if err := call(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ptr[T any](value T) *T { return &value }

func call(url string) error {
	ctx := context.Background()
	client, err := gnomon.NewClientWithResponses(url)
	if err != nil {
		return err
	}
	defaults, err := client.PutTaskTypeWithResponse(ctx, "go.mail", gnomon.PutTaskType{
		Defaults: &gnomon.TaskTypeDefaults{
			TimeoutSeconds: ptr(45.5),
			RetryPolicy:    &gnomon.RetryPolicy{MaxRetries: ptr(2)},
		},
	})
	if err != nil {
		return err
	}
	submitted, err := client.SubmitTaskWithResponse(ctx,
		&gnomon.SubmitTaskParams{IdempotencyKey: ptr("go-1")},
		gnomon.SubmitWithCallbacks{
			TaskType:     "go.mail",
			Payload:      map[string]string{"to": "a@b.c"},
			Priority:     ptr(gnomon.PriorityHIGH),
			Tags:         ptr([]string{"go"}),
			DelaySeconds: ptr(3600.0),
		})
	if err != nil {
		return err
	}
	task, err := submitted.JSON202.AsNewTaskView()
	if err != nil {
		return err
	}
	target, err := task.Target.AsPythonTarget()
	if err != nil {
		return err
	}
	cancelled := make(chan int)
	go func() {
		answer, err := client.CancelTaskWithResponse(ctx, task.TaskId, nil, gnomon.CancelTask{})
		if err != nil {
			cancelled <- 0
			return
		}
		cancelled <- answer.StatusCode()
	}()
	waited, err := client.GetTaskWithResponse(ctx, task.TaskId, &gnomon.GetTaskParams{
		Wait: ptr(20.0), Include: ptr(gnomon.IncludedPartExecutions),
	})
	if err != nil {
		return err
	}
	listed, err := client.ListTasksWithResponse(ctx, &gnomon.ListTasksParams{
		Tag: ptr("go"), Status: ptr(gnomon.StatusCANCELLED), Limit: ptr(5),
	})
	if err != nil {
		return err
	}
	executions, err := client.ListExecutionsWithResponse(ctx, task.TaskId,
		&gnomon.ListExecutionsParams{Outcome: ptr(gnomon.ExecutionOutcomeFailed)})
	if err != nil {
		return err
	}
	stats, err := client.GetTaskStatsWithResponse(ctx, &gnomon.GetTaskStatsParams{TaskType: ptr("go.mail")})
	if err != nil {
		return err
	}
	refused, err := client.SubmitTaskWithResponse(ctx, nil,
		gnomon.SubmitWithCallbacks{TaskType: "go.mail", TimeoutSeconds: ptr(0.0)})
	if err != nil {
		return err
	}
	missing, err := client.GetTaskWithResponse(ctx, uuid.MustParse("019a0000-0000-7000-8000-000000000000"), nil)
	if err != nil {
		return err
	}
	priorities := []gnomon.Priority{}
	for _, each := range listed.JSON200.Tasks {
		priorities = append(priorities, each.Priority)
	}
	ended := waited.JSON200
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"defaults":   *defaults.JSON201.Defaults.TimeoutSeconds,
		"target":     target.Function,
		"waited":     []any{ended.Status, ended.FinishedAt != nil && ended.FinishedAt.After(ended.CreatedAt), len(*ended.Executions)},
		"cancelled":  <-cancelled,
		"listed":     priorities,
		"executions": executions.JSON200.NextCursor,
		"counted":    stats.JSON200.Statuses["CANCELLED"].Count,
		"refused":    []any{refused.StatusCode(), (*refused.ApplicationproblemJSON422.Errors)[0].Pointer},
		"missing":    missing.ApplicationproblemJSON404.Status,
	})
}
