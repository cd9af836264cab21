// Calls a real API through the generated types. Prints what came back, for the test to compare.
import createClient from "openapi-fetch";
import type { components, paths } from "./gnomon.js";

declare const process: { argv: string[] };

type Task = components["schemas"]["TaskView"];

const client = createClient<paths>({ baseUrl: process.argv[2]! });

const defaults = await client.PUT("/api/v1/task-types/{name}", {
  params: { path: { name: "ts.mail" } },
  body: { defaults: { timeout_seconds: 45.5, retry_policy: { max_retries: 2 } } },
});

const submitted = await client.POST("/api/v1/tasks", {
  params: { header: { "Idempotency-Key": "typescript-1" } },
  body: { task_type: "ts.mail", payload: { to: "a@b.c" }, priority: "HIGH", tags: ["ts"], delay_seconds: 3600 },
});
const task = submitted.data as Task;
const path = { task_id: task.task_id };

const [waited, cancelled] = await Promise.all([
  client.GET("/api/v1/tasks/{task_id}", { params: { path, query: { wait: 20, include: "executions" } } }),
  client.POST("/api/v1/tasks/{task_id}/cancel", { params: { path }, body: {} }),
]);
const listed = await client.GET("/api/v1/tasks", { params: { query: { tag: "ts", status: "CANCELLED", limit: 5 } } });
const executions = await client.GET("/api/v1/tasks/{task_id}/executions", { params: { path, query: { outcome: "failed" } } });
const stats = await client.GET("/api/v1/tasks/stats", { params: { query: { task_type: "ts.mail" } } });
const refused = await client.POST("/api/v1/tasks", { body: { task_type: "ts.mail", timeout_seconds: 0 } });
const missing = await client.GET("/api/v1/tasks/{task_id}", {
  params: { path: { task_id: "019a0000-0000-7000-8000-000000000000" } },
});

// Values have their types: what is null may be null, and enums are no plain strings.
const finished: string | null = waited.data!.finished_at;
const status: components["schemas"]["Status"] = waited.data!.status;

console.log(JSON.stringify({
  defaults: defaults.data?.defaults.timeout_seconds,
  target: task.target.type === "python" ? task.target.function : null,
  waited: [status, finished !== null, waited.data!.executions?.length],
  cancelled: cancelled.response.status,
  listed: listed.data?.tasks.map((each) => each.priority),
  executions: executions.data?.next_cursor,
  counted: stats.data?.statuses["CANCELLED"]?.count,
  refused: [refused.response.status, refused.error?.errors?.[0]?.pointer],
  missing: missing.error?.status,
}));
