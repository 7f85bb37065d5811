import type { ComponentChildren } from 'preact';

/** A column; `minor` ones are left out where the screen is narrow. */
export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  /** In place of the name. */
  head?: ComponentChildren;
  minor?: boolean;
  numeric?: boolean;
}

/** Rows of one kind. @param label names the table to a screen reader */
export function Table<Row extends { id: string }>({
  label,
  columns,
  rows,
}: {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
}) {
  const classOf = ({ minor, numeric }: Column<Row>) =>
    [minor && 'minor', numeric && 'numeric'].filter(Boolean).join(' ') || undefined;
  return (
    <div class="table">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.head ?? column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
